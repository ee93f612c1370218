#!/usr/bin/env bash
# Installs InfluxDB and makes the database `sparecraft`, so that it is there from the first moment of a start.
set -euo pipefail
role=/opt/sparecraft/role
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends influxdb >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -m 644 "$role/influxdb.conf" /etc/influxdb/sparecraft.conf

# The build may share the host's network, so this server listens where no other does.
port=28086
if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
  echo "influxdb: expected port $port of 127.0.0.1 to be free during the build; end what listens there" >&2
  exit 1
fi
sed -e "s/127\.0\.0\.1:8086/127.0.0.1:$port/" -e 's/127\.0\.0\.1:8088/127.0.0.1:28088/' -e '/auth-enabled/d' \
  /etc/influxdb/sparecraft.conf >/tmp/influxdb-install.conf
install -d -m 750 -o influxdb -g influxdb /var/lib/influxdb
setpriv --reuid influxdb --regid influxdb --clear-groups influxd -config /tmp/influxdb-install.conf 2>/tmp/influxd.log &
server=$!
query() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'POST /query?q=%s HTTP/1.0\r\nContent-Length: 0\r\n\r\n' "$1" >&3
  grep -q '^HTTP/1.. 200' <&3
}
export -f query
export port
until timeout 5 bash -c 'query CREATE+DATABASE+sparecraft' 2>/dev/null; do
  kill -0 "$server" 2>/dev/null || { tail /tmp/influxd.log >&2; exit 1; }
  sleep 0.2
done
kill "$server"
wait "$server" || true
rm -f /tmp/influxdb-install.conf /tmp/influxd.log
