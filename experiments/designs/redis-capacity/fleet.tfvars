# One Redis.
experiment = "redis-capacity"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "redis"
    nodes         = 1
    cpus          = 0.1
    memory_mb     = 384
    nic_mbps      = 6
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  store = { tokens = 1000 }
}
