#!/usr/bin/env bash
# Runs one of HDFS's servers in the foreground. A NameNode makes its name space at its first start.
# shellcheck source=infra/roles/hdfs/hadoop.sh
source /opt/sparecraft/role/hadoop.sh
rm -f "$run/whole"
write_hosts
mkdir -p "$run"/classes/webapps/{hdfs,datanode,secondary} # what their web servers look for, with or without pages
install -d -m 755 -o store -g store "$data"
cd "$data"
program=org.apache.hadoop.hdfs.server.$server
if [ "$ID" = 1 ] && [ ! -e formatted ]; then
  rm -rf name1 name2 name3
  as_store "${java[@]}" "$program" -format
  touch formatted
fi
exec setpriv --reuid=store --regid=store --clear-groups "${java[@]}" "$program"
