# A cluster of three, with cards of 100 Mbit/s as in the paper (Limplock section 4.1).
experiment = "danger-zones-etcd-delay"
scheme     = "on-prem"

tiers = {
  members = {
    role      = "etcd"
    nodes     = 3
    cpus      = 2
    memory_mb = 256
    nic_mbps  = 100
    disk_mbps = 80
  }
}
