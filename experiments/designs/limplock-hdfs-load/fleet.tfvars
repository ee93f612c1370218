# A NameNode, a SecondaryNameNode and four DataNodes, with cards and disks as in the paper (Limplock section 4.1).
experiment = "limplock-hdfs-load"
scheme     = "on-prem"

tiers = {
  store = {
    role      = "hdfs"
    nodes     = 6
    cpus      = 2
    memory_mb = 384
    nic_mbps  = 100
    disk_mbps = 80
  }
}
