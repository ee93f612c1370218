#!/usr/bin/env bash
# Makes the file that Redis starts from: records of YCSB's form with the text of the dict-gcide dictionary.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null
data=/opt/sparecraft/data
work=$(mktemp -d)

serve() { # port, arguments: a Redis with its socket at $work/PORT
  redis-server --port "$1" --bind 127.0.0.1 --unixsocket "$work/$1" --save '' --daemonize no --repl-diskless-sync-delay 0 "${@:2}" >/dev/null &
  until redis-cli -s "$work/$1" ping >/dev/null 2>&1; do
    kill -0 $!
    sleep 0.1
  done
}

serve 6379 --dir "$data" --dbfilename content.rdb
server=$!
python3 /opt/sparecraft/role/records.py --dictionary /usr/share/dictd/gcide.dict.dz --format redis entry:20000:1000 fragment:1000:16000 page:400:50000 |
  redis-cli -s "$work/6379" --pipe >/dev/null
records=$(redis-cli -s "$work/6379" dbsize)
[ "$records" = 21400 ] || { echo "expected 21400 records, got $records" >&2; exit 1; }
# Only a primary that has had a replica writes its replication id into the file: with it, replicas that
# start from the same file take up where the file ends, instead of a copy of everything.
serve 6380 --dir "$work" --replicaof "127.0.0.1 6379"
replica=$!
until redis-cli -s "$work/6380" info replication | grep -q master_link_status:up; do
  sleep 0.1
done
redis-cli -s "$work/6380" shutdown nosave
wait "$replica"
redis-cli -s "$work/6379" save >/dev/null
redis-cli -s "$work/6379" shutdown nosave
wait "$server"
rm -r "$work"
