#!/usr/bin/env bash
# Runs a Cassandra node in the foreground. The tier's active machines share the ring evenly and know each other from the first
# start, in any order; a standby joins the ring that it finds.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
rm -f "$run/whole"
write_hosts
install -d -m 755 -o store -g store "$data"
IFS=, read -ra peers <<<"$PEERS"
seeds=("${peers[@]:0:NODES}")
joins=false
# Of the 2^64 tokens from -2^63 on; a sum that is too large wraps to the right one.
# shellcheck disable=SC2017 # in this order it fits 64 bits
token=$((-9223372036854775807 - 1 + (ID - 1) * (9223372036854775807 / NODES * 2)))
if [ "$ID" -gt "$NODES" ]; then
  joins=true
  token=
fi
mkdir -p "$run/conf"
sed -e "s|SEEDS|$(IFS=,; echo "${seeds[*]#*=}")|" -e "s|TOKEN|$token|" -e "s|JOINS|$joins|" -e "s|DATA|$data|" \
  -e "s|ADDRESS|$ADDRESS|" "$software/cassandra.yaml" >"$run/conf/cassandra.yaml"
# shellcheck disable=SC2054 # object names have commas
beans=(ThreadPools,path=request,name={Active,Pending}Tasks ThreadPools,path=transport,name=ActiveTasks
  Connection,name={{Small,Large}Message,Command}PendingTasks Connection,name=TotalTimeouts DroppedMessage,name=Dropped
  Storage,name=TotalHints Keyspace,name=SpeculativeRetries)
beans=("${beans[@]/#/org.apache.cassandra.metrics:type=}" org.apache.cassandra.net:type=FailureDetector)
if [ "$GENERATION" = old ]; then beans+=(org.apache.cassandra.db:type=StorageProxy); fi # its hints; the new one asks all nodes for it
mapfile -t java < <(java_of "$HEAP_MB" && jmx_of "${beans[@]/%/,*}")
java+=("@$software/jvm.options" -Xss512k "-Dcassandra.config=file://$run/conf/cassandra.yaml" "-Dcassandra.storagedir=$data"
  -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=5000 -Dcassandra.skip_wait_for_gossip_to_settle=0)
agents=("$software"/lib/jamm-0.4*.jar) # how the new release measures what its caches take
if [ -e "${agents[0]}" ]; then java+=("-javaagent:${agents[0]}"); fi
cd "$data"
exec setpriv --reuid=store --regid=store --clear-groups "${java[@]}" -cp "$software:$software/lib/*" \
  org.apache.cassandra.service.CassandraDaemon
