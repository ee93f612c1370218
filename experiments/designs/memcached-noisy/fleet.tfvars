# One tier: caches that hold the same data.
experiment = "memcached-noisy"
scheme     = "on-prem"

tiers = {
  cache = {
    role          = "memcached"
    nodes         = 4
    standby       = 0
    cpus          = 0.1
    memory_mb     = 192
    nic_mbps      = 20
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  cache = { tokens = 16 }
}
