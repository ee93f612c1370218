# The ensemble of row Z3.
experiment = "tst-limplock"
scheme     = "on-prem"

tiers = {
  ensemble = {
    role      = "zookeeper"
    nodes     = 3
    cpus      = 2
    memory_mb = 384
    nic_mbps  = 100
    disk_mbps = 80
  }
}
