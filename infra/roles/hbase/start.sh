#!/usr/bin/env bash
# Runs one of HBase's servers in the foreground, as soon as its name node and a ZooKeeper take connections.
# shellcheck source=infra/roles/hbase/hbase.sh
source /opt/sparecraft/role/hbase.sh
rm -f "$run/whole"
write_own_name
mkdir -p "$run"/classes/hbase-webapps/{master,regionserver} # what their web servers look for, with or without pages
install -d -m 755 -o store -g store "$data"
cd "$data"
await_any "$NAMENODE:8020"
await_any "$ZOOKEEPER"
exec setpriv --reuid=store --regid=store --clear-groups "${java[@]}" "org.apache.hadoop.hbase.$server" start
