#!/usr/bin/env bash
# Runs a ZooKeeper server in the foreground, a member of the ensemble that PEERS lists.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
write_hosts
install -d -m 755 -o store -g store "$data"
echo "$ID" >"$data/myid"
{
  # Times are those of the sample configuration of both releases. Sessions do not change with the tick, of which they are multiples.
  printf '%s\n' "tickTime=$TICK_MS" "initLimit=$((20000 / TICK_MS))" syncLimit=5 minSessionTimeout=4000 maxSessionTimeout=40000 \
    clientPort=2181 maxClientCnxns=0 "dataDir=$data" "globalOutstandingLimit=$OUTSTANDING_MAX"
  if [ "$GENERATION" = new ]; then printf '%s\n' admin.enableServer=false '4lw.commands.whitelist=*'; fi
  id=0
  for peer in ${PEERS//,/ }; do echo "server.$((++id))=${peer#*=}:2888:3888"; done
} >"$run/zoo.cfg"
# shellcheck disable=SC2119 # of no beans but the heap
mapfile -t java < <(java_of "$HEAP_MB" && jmx_of)
cd "$data"
exec setpriv --reuid=store --regid=store --clear-groups "${java[@]}" -cp "$software:$software/lib/*" \
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$run/zoo.cfg"
