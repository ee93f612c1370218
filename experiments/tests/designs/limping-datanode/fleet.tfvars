# The three data nodes of row F6, and the two machines that keep their metadata.
experiment = "tst-limplock-hdfs"
scheme     = "on-prem"

tiers = {
  store = {
    role      = "hdfs"
    nodes     = 5
    cpus      = 2
    memory_mb = 384
    nic_mbps  = 400
    disk_mbps = 80
  }
}
