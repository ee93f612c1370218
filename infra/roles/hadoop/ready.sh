#!/usr/bin/env bash
# Exit 0: the machine for jobs has every worker since it started; that for their history answers; a worker is healthy, and its
# DataNode knows the NameNode and its volumes.
# shellcheck source=infra/roles/hadoop/hadoop.sh
source /opt/sparecraft/role/hadoop.sh

refuse() {
  printf 'ready: expected %s, got: %.200s\n' "$1" "${2:-nothing}" >&2
  exit 1
}
ask() { # port and path
  curl -sg --max-time 4 "http://$ADDRESS:$1" || true
}

case $GENERATION.$place in
  *.jobs)
    case $GENERATION in
      new)
        answer=$(ask 8088/jmx?qry=Hadoop:service=ResourceManager,name=ClusterMetrics)
        found='"NumActiveNMs" : ([0-9]+)'
        ;;
      old)
        answer=$(ask 50030/jmx?qry=Hadoop:service=JobTracker,name=JobTrackerInfo)
        found='\\"alive\\":([0-9]+)'
        ;;
    esac
    [[ "$answer" =~ $found ]] || refuse "a number of workers" "$answer"
    # Later a dead worker does not make the machine for jobs look dead.
    [ -e "$run/whole" ] || [ "${BASH_REMATCH[1]}" -ge $((NODES - 2)) ] || refuse "$((NODES - 2)) workers" "${BASH_REMATCH[1]}"
    touch "$run/whole"
    ;;
  new.history)
    answer=$(ask 19888/ws/v1/history/info)
    [[ "$answer" == *startedOn* ]] || refuse "since when it runs" "$answer"
    ;;
  old.history)
    answer=$(ask 51111/jmx?qry=java.lang:type=Runtime)
    [[ "$answer" == *'"StartTime"'* ]] || refuse "since when it runs" "$answer"
    ;;
  new.worker)
    answer=$(ask 8042/ws/v1/node/info)
    [[ "$answer" == *'"nodeHealthy":true'* ]] || refuse "a healthy NodeManager" "$answer"
    ;;
  old.worker)
    answer=$(ask 50060/jmx?qry=Hadoop:service=TaskTracker,name=TaskTrackerInfo)
    [[ "$answer" == *'"Healthy" : true'* ]] || refuse "a healthy TaskTracker" "$answer"
    ;;
esac
if [ "$place" = worker ]; then
  if [ "$GENERATION" = new ]; then port=9864; else port=50075; fi
  answer=$(ask "$port/jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo")
  [[ "$answer" =~ \"VolumeInfo\".*$data/blocks ]] || refuse "a DataNode with its volumes" "$answer"
fi
