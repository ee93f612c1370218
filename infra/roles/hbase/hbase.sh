# shellcheck shell=bash
# Which server of HBase this machine is, and what every program of HBase is told: "${java[@]}" CLASS runs one.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
if [ "$NODES" -lt 2 ]; then
  echo "hbase: expected a tier of a master and region servers, got $NODES machine" >&2
  exit 1
fi
# shellcheck disable=SC2034 # for those who source this
if [ "$ID" = 1 ]; then server=master.HMaster; else server=regionserver.HRegionServer; fi
mapfile -t java < <(java_of "$HEAP_MB")
java+=("@$software/jvm.options" "-Dfleet.namenode=$NAMENODE" "-Dfleet.zookeeper=${ZOOKEEPER//:2181/}" "-Dfleet.data=$data"
  "-Dfleet.read_share=$READ_SHARE"
  "-Dhbase.log.dir=$data" "-Dhadoop.log.dir=$data" -cp "$run/classes:$software:$software/lib/*")
