# shellcheck shell=bash
# Which server of MapReduce this machine is, and what every program of Hadoop is told: "${java[@]}" CLASS runs one.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
if [ "$NODES" -lt 3 ]; then
  echo "hadoop: expected a tier of a machine for jobs, one for their history and workers, got $NODES machines" >&2
  exit 1
fi
IFS=, read -ra peers <<<"$PEERS"
case $ID in 1) place="jobs" ;; 2) place="history" ;; *) place="worker" ;; esac
# shellcheck disable=SC2034 # for those who source this
case $GENERATION.$place in
  new.jobs) server=yarn.server.resourcemanager.ResourceManager ;;
  new.history) server=mapreduce.v2.hs.JobHistoryServer ;;
  new.worker) server=yarn.server.nodemanager.NodeManager ;;
  old.jobs) server=mapred.JobTracker ;;
  old.history) server=mapred.JobHistoryServer ;;
  old.worker) server=mapred.TaskTracker ;;
esac
JAVA_HOME=$(readlink -f /usr/bin/java)
export JAVA_HOME=${JAVA_HOME%/bin/java} # the NodeManager starts tasks with it
# A worker's places for maps, for reduces, and, in the new release, for what leads a job.
maps=2 reduces=2 jobs=4
if [ "$PLACES" = apart ]; then
  case $((ID % 3)) in 0) reduces=0 jobs=0 ;; 2) maps=0 jobs=0 ;; esac
fi
mapfile -t java < <(java_of "$HEAP_MB")
# Properties of fleet. are for the DataNode, whose configuration is the role hdfs's: all words of it, as that role's defaults are.
java+=(--add-opens java.base/java.lang=ALL-UNNAMED "-Dfleet.namenode=$NAMENODE" "-Dfleet.address=$ADDRESS" "-Dfleet.data=$data"
  -Dfleet.interval_s=3 "-Dfleet.volumes=$data/blocks" -Dfleet.shared=false -Dfleet.shares= -Dfleet.reserved=0
  -Dfleet.checkpoint_s=3600 -Dfleet.handlers=10 -Dfleet.streams=2 -Dfleet.streams_most=4 "-Dfleet.secondary=$NAMENODE" "-Dfleet.web=$NAMENODE"
  "-Dhadoop.log.dir=$data/logs" -cp "$run/classes:$run/conf:$software:$software/lib/*")

# Jobs carry their configuration to other machines, so that it must not name properties of this JVM.
write_configuration() {
  local file
  mkdir -p "$run/conf"
  for file in "$software"/{core,mapred,yarn}-site.xml "$software/resource-types.xml"; do
    [ ! -e "$file" ] || sed -e "s|NAMENODE|$NAMENODE|g" -e "s|FIRST|$FIRST|g" -e "s|SECOND|${peers[1]#*=}|g" \
      -e "s|ADDRESS|$ADDRESS|g" -e "s|DATA|$data|g" -e "s|MAPS|$maps|g" -e "s|REDUCES|$reduces|g" -e "s|JOBS|$jobs|g" "$file" >"$run/conf/${file##*/}"
  done
}
