#!/usr/bin/env bash
# Runs MariaDB in the foreground as a machine of the tier's Galera cluster. A server that finds no other machine in time
# ends by itself; then the machines agree anew on the one that begins.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
readonly STARTS_MAX=100
data=/opt/sparecraft/data
run=/run/mysqld
install -d -m 755 -o mysql -g mysql "$run"
cluster=$(sed -E 's|[^,=]+=||g' <<<"$PEERS")
# After this silence a machine is lost, and until then writes wait. Galera's own value is 5 s.
detection="evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.25S;evs.suspect_timeout=PT3S"
# A component is made by join.sh alone, so what Galera keeps of the last one is not used.
provider="gmcast.listen_addr=tcp://$ADDRESS:4567;pc.recovery=FALSE;gcache.size=32M;$detection"

server=(/usr/sbin/mariadbd --defaults-file=/opt/sparecraft/role/my.cnf "--wsrep-cluster-name=$TIER"
  "--wsrep-cluster-address=gcomm://$cluster" "--wsrep-node-name=$NAME" "--wsrep-node-address=$ADDRESS"
  "--wsrep-provider-options=$provider")

position() { # prints HISTORY:NUMBER of the last write that is on disk
  local history number recovered
  history=$(awk '$1 == "uuid:" { print $2 }' "$data/grastate.dat")
  number=$(awk '$1 == "seqno:" { print $2 }' "$data/grastate.dat")
  if [ "$number" -ge 0 ]; then
    echo "$history:$number"
    return
  fi
  # It was killed: InnoDB knows how far it came.
  "${server[@]}" --wsrep-recover --log-error="$run/recovery.log" --pid-file="$run/recovery.pid" >&2 || true
  recovered=$(sed -nE 's/.*WSREP: Recovered position: *([0-9a-f-]+:-?[0-9]+).*/\1/p' "$run/recovery.log" | tail -n 1)
  # With half a copy of another machine's data it gets all of it again.
  echo "${recovered:-00000000-0000-0000-0000-000000000000:-1}"
}

child=
trap 'if [ -n "$child" ]; then kill "$child" 2>/dev/null || true; wait "$child" || true; fi; exit 0' TERM
for ((start = 0; start < STARTS_MAX; start++)); do
  rm -f "$run"/{component,recovery.log,mysqld.pid}
  begins_at=$(position)
  setpriv --reuid=mysql --regid=mysql --clear-groups /opt/sparecraft/role/join.sh "$begins_at" >"$run/decision" &
  child=$!
  wait "$child"
  read -r decision donors <"$run/decision"
  if [ "$decision" = first ]; then
    sed -i 's/^safe_to_bootstrap: .*/safe_to_bootstrap: 1/' "$data/grastate.dat"
    options=(--wsrep-new-cluster)
  else
    options=(--wsrep-sst-donor="$donors,") # any other, if these are away
  fi
  "${server[@]}" --wsrep-start-position="$begins_at" "${options[@]}" &
  child=$!
  wait "$child" || true
  child=
  sleep 1
done
exit 1
