# One tier: a primary that takes the writes, and nine replicas of it, with cards of 50 Mbit/s.
experiment = "redis-tails"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "redis"
    nodes         = 10
    standby       = 0
    cpus          = 0.15
    memory_mb     = 256
    nic_mbps      = 50
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  store = { tokens = 16 }
}
