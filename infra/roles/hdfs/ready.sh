#!/usr/bin/env bash
# Exit 0: the NameNode is out of safe mode, and every DataNode has come to it since it started; a DataNode knows the
# NameNode and its volumes; the SecondaryNameNode answers.
# shellcheck source=infra/roles/hdfs/hadoop.sh
source /opt/sparecraft/role/hadoop.sh
declare -A ports=([NameNode old]=50070 [SecondaryNameNode old]=50090 [DataNode old]=50075
  [NameNode new]=9870 [SecondaryNameNode new]=9868 [DataNode new]=9864)
name=${server#*.}

refuse() {
  printf 'ready: expected %s, got: %.200s\n' "$1" "${2:-nothing}" >&2
  exit 1
}
ask() { # bean; its attributes in JSON
  curl -sg --max-time 4 "http://$ADDRESS:${ports[$name $GENERATION]}/jmx?qry=$1" || true
}

case $name in
  NameNode)
    answer=$(ask Hadoop:service=NameNode,name=NameNodeInfo)
    [[ "$answer" == *'"Safemode" : ""'* ]] || refuse "a NameNode out of safe mode" "$(grep Safemode <<<"$answer")"
    live=$(grep '"LiveNodes"' <<<"$answer" | grep -o lastContact | wc -l)
    # Later a dead DataNode does not make the NameNode look dead.
    [ -e "$run/whole" ] || [ "$live" -ge $((NODES - 2)) ] || refuse "$((NODES - 2)) DataNodes that are alive" "$live"
    touch "$run/whole"
    ;;
  DataNode)
    answer=$(ask Hadoop:service=DataNode,name=DataNodeInfo)
    [[ "$answer" =~ \"VolumeInfo\".*$data/blocks ]] || refuse "a DataNode with its volumes" "$answer"
    ;;
  SecondaryNameNode)
    answer=$(ask java.lang:type=Runtime)
    [[ "$answer" == *'"StartTime"'* ]] || refuse "an answer" "$answer"
    ;;
esac
