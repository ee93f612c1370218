# One tier: a primary that takes the writes, and three replicas of it. Reads go to any of the four.
experiment = "redis-calls"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "redis"
    nodes         = 4
    standby       = 0
    cpus          = 0.15
    memory_mb     = 256
    nic_mbps      = 12
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  store = { tokens = 16 }
}
