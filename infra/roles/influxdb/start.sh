#!/usr/bin/env bash
# Runs InfluxDB in the foreground. After a SIGKILL it replays its write-ahead log.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
: "${INFLUXDB_HTTP_BIND_ADDRESS:?expected it in /etc/sparecraft/role.env: ADDRESS:PORT}"
exec setpriv --reuid influxdb --regid influxdb --clear-groups /usr/bin/influxd -config /etc/influxdb/sparecraft.conf
