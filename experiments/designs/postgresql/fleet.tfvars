# A primary and two streaming replicas of it behind one arbiter, which passes connections through.
experiment = "postgresql"
scheme     = "on-prem"

tiers = {
  db = {
    role          = "postgresql"
    nodes         = 3
    cpus          = 0.4
    memory_mb     = 256
    nic_mbps      = 100
    disk_mbps     = 50
    instance_type = "t3.small"
  }
}

arbiters = {
  db = { tokens = 32 }
}
