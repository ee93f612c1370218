# One Redis whose processor is what fills up, not its card.
experiment = "redis-variants"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "redis"
    nodes         = 1
    cpus          = 0.25
    memory_mb     = 384
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  store = { tokens = 64 }
}
