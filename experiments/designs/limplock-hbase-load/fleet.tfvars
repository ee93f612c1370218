# A master and three region servers on an HDFS of three data nodes, with cards of 100 Mbit/s as in the paper (Limplock section 4.1).
experiment = "limplock-hbase-load"
scheme     = "on-prem"

tiers = {
  regions = {
    role      = "hbase"
    calls     = ["files", "ensemble"]
    nodes     = 4
    cpus      = 2
    memory_mb = 640
    nic_mbps  = 100
    disk_mbps = 80
  }
  files = {
    role      = "hdfs"
    nodes     = 5
    cpus      = 2
    memory_mb = 384
    nic_mbps  = 100
    disk_mbps = 80
  }
  ensemble = {
    role      = "zookeeper"
    nodes     = 1
    cpus      = 2
    memory_mb = 256
    nic_mbps  = 100
    disk_mbps = 80
  }
}
