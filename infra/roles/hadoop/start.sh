#!/usr/bin/env bash
# Runs one of MapReduce's servers in the foreground, as soon as the name node takes connections; a worker runs its DataNode
# beside, and ends as soon as one of the two does.
# shellcheck source=infra/roles/hadoop/hadoop.sh
source /opt/sparecraft/role/hadoop.sh
rm -f "$run/whole"
write_own_name
write_configuration
mkdir -p "$run"/classes/webapps/datanode # what their web servers look for, with or without pages
if [ "$GENERATION" = old ]; then mkdir -p "$run"/classes/webapps/{job,history,task}; fi
install -d -m 755 -o store -g store "$data" "$data/logs"
cd "$data"
await_any "$NAMENODE:8020"
store=(setpriv --reuid=store --regid=store --clear-groups "${java[@]}")
if [ "$place" != worker ]; then exec "${store[@]}" "org.apache.hadoop.$server"; fi

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
trap 'exit 0' TERM
"${store[@]}" org.apache.hadoop.hdfs.server.datanode.DataNode &
"${store[@]}" "org.apache.hadoop.$server" &
wait -n
