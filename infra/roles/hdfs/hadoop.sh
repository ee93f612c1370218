# shellcheck shell=bash
# Which server of HDFS this machine is, and what every program of Hadoop is told: "${java[@]}" CLASS runs one.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
if [ "$NODES" -lt 3 ]; then
  echo "hdfs: expected a tier of a NameNode, a SecondaryNameNode and DataNodes, got $NODES machines" >&2
  exit 1
fi
IFS=, read -ra peers <<<"$PEERS"
web=$NAMENODE # where others find its metrics and images
# shellcheck disable=SC2034 # for those who source this
case $ID in
  1) server=namenode.NameNode web=0.0.0.0 ;; # served on the control network too
  2) server=namenode.SecondaryNameNode ;;
  *) server=datanode.DataNode ;;
esac
# With CAPACITY_MB a share of the disk is for blocks; the old release has the rest reserved, the new one an archive of it.
volumes=$data/blocks shares='' shared=false reserved=0
if [ "$CAPACITY_MB" != 0 ]; then
  size_mb=$(df -B1M --output=size /opt/sparecraft | tail -n 1)
  reserved=$(((size_mb - CAPACITY_MB) << 20))
  shared=true volumes="[DISK]$data/blocks,[ARCHIVE]$data/archive"
  shares=$(awk -v part="$CAPACITY_MB" -v all="$size_mb" -v of="$data/blocks" 'BEGIN { printf "[%.6f]file:%s", part / all, of }')
fi
mapfile -t java < <(java_of "$HEAP_MB")
java+=("-Dfleet.namenode=$NAMENODE" "-Dfleet.secondary=${peers[1]#*=}" "-Dfleet.address=$ADDRESS" "-Dfleet.data=$data"
  "-Dfleet.checkpoint_s=$CHECKPOINT_S" "-Dfleet.interval_s=$INTERVAL_S" "-Dfleet.volumes=$volumes"
  "-Dfleet.handlers=$HANDLERS" "-Dfleet.streams=$STREAMS" "-Dfleet.streams_most=$((2 * STREAMS))"
  "-Dfleet.shared=$shared" "-Dfleet.shares=$shares" "-Dfleet.reserved=$reserved" "-Dfleet.web=$web" "-Dhadoop.log.dir=$data" -cp "$run/classes:$software:$software/lib/*")
