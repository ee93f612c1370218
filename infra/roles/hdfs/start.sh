#!/usr/bin/env bash
# Runs one of HDFS's servers in the foreground. A NameNode makes its name space at its first start.
# shellcheck source=infra/roles/hdfs/hadoop.sh
source /opt/sparecraft/role/hadoop.sh
rm -f "$run/whole"
write_hosts
mkdir -p "$run"/classes/webapps/{hdfs,datanode,secondary} # what their web servers look for, with or without pages
install -d -m 755 -o store -g store "$data"
cd "$data"
: >leaving # by default nobody
program=org.apache.hadoop.hdfs.server.$server
if [ "$ID" = 1 ] && [ ! -e formatted ]; then
  rm -rf name1 name2 name3
  as_store "${java[@]}" "$program" -format
  touch formatted
fi

# DataNodes that the NameNode is to dismiss are in a file of its machine, which no client of HDFS can write. So folders of
# /leaving are their addresses, as long as the server lives, which this shell becomes.
follow_leaving() {
  local -A ports=([old]=50070 [new]=9870)
  local at="http://$ADDRESS:${ports[$GENERATION]}/fsck?ugi=root&path=%2Fleaving&files=1"
  while sleep 0.3 && kill -0 $$; do
    { curl -sf --max-time 2 "$at" || true; } | { grep -o '^/leaving/[0-9.]*' || true; } | cut -d/ -f3 >leaving.new
    mv leaving.new leaving
  done 2>/dev/null
}
if [ "$ID" = 1 ] && [ "$LEAVING" = yes ]; then follow_leaving & fi
# The old NameNode has a DataNode end that has left; here it comes back, as one that is started again.
if [ "$GENERATION-$LEAVING-$server" = old-yes-datanode.DataNode ]; then
  while as_store "${java[@]}" "$program"; do sleep 1; done
  exit 1
fi
exec setpriv --reuid=store --regid=store --clear-groups "${java[@]}" "$program"
