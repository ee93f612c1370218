#!/usr/bin/env bash
# Exit 0: the master has initialised, and every region server has come to it since it started; a region server has reported
# for duty and serves.
# shellcheck source=infra/roles/hbase/hbase.sh
source /opt/sparecraft/role/hbase.sh

refuse() {
  printf 'ready: expected %s, got: %.200s\n' "$1" "${2:-nothing}" >&2
  exit 1
}
ask() { # port, bean; its attributes in JSON
  curl -sg --max-time 4 "http://$ADDRESS:$1/jmx?qry=$2" || true
}

if [ "$ID" != 1 ]; then
  case $GENERATION in
    new) answer=$(ask 16030 Hadoop:service=HBase,name=RegionServer,sub=Server) ;;
    old) answer=$(ask 16030 hadoop:service=RegionServer,name=RegionServerStatistics) ;;
  esac
  [[ "$answer" =~ \"(regionCount|regions)\" ]] || refuse "a region server that reported for duty" "$answer"
  exit 0
fi
# Both have these only once the master has initialised.
case $GENERATION in
  new)
    answer=$(ask 16010 Hadoop:service=HBase,name=Master,sub=Server)
    [[ "$answer" =~ \"masterFinishedInitializationTime\"\ ?:\ [1-9] ]] || refuse "a master that has initialised" "$answer"
    [[ "$answer" =~ \"numRegionServers\"\ ?:\ ([0-9]+) ]] || refuse "a number of region servers" "$answer"
    live=${BASH_REMATCH[1]}
    ;;
  old)
    answer=$(ask 16010 hadoop:service=Master,name=Master)
    [[ "$answer" == *'"IsActiveMaster" : true'* ]] || refuse "a master that has initialised" "$answer"
    live=$(grep -o '"key" : ' <<<"$answer" | wc -l)
    ;;
esac
# Later a dead region server does not make the master look dead.
[ -e "$run/whole" ] || [ "$live" -ge $((NODES - 1)) ] || refuse "$((NODES - 1)) region servers that are alive" "$live"
touch "$run/whole"
