# One tier: caches that hold the same data, with cards of 50 Mbit/s.
experiment = "memcached-tails"
scheme     = "on-prem"

tiers = {
  cache = {
    role          = "memcached"
    nodes         = 10
    standby       = 0
    cpus          = 0.15
    memory_mb     = 192
    nic_mbps      = 50
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  cache = { tokens = 16 }
}
