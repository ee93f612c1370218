#!/usr/bin/env bash
# Makes the file that Redis starts from: records of YCSB's form with the text of the dict-gcide dictionary.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null
data=/opt/sparecraft/data
socket=$(mktemp -d)/redis.sock
redis-server --port 0 --unixsocket "$socket" --dir "$data" --dbfilename content.rdb --save '' --daemonize no >/dev/null &
server=$!
until redis-cli -s "$socket" ping >/dev/null 2>&1; do
  kill -0 "$server"
  sleep 0.1
done
python3 /opt/sparecraft/role/records.py --dictionary /usr/share/dictd/gcide.dict.dz --count 20000 --format redis |
  redis-cli -s "$socket" --pipe >/dev/null
records=$(redis-cli -s "$socket" dbsize)
[ "$records" = 20000 ] || { echo "expected 20000 records, got $records" >&2; exit 1; }
redis-cli -s "$socket" save >/dev/null
redis-cli -s "$socket" shutdown nosave
wait "$server"
