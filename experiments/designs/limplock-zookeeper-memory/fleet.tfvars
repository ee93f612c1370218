# An ensemble of three, with cards of 100 Mbit/s as in the paper (Limplock section 4.1).
experiment = "limplock-zookeeper-memory"
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
