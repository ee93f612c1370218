# One cache.
experiment = "memcached-capacity"
scheme     = "on-prem"

tiers = {
  cache = {
    role          = "memcached"
    nodes         = 1
    cpus          = 0.1
    memory_mb     = 192
    nic_mbps      = 10
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  cache = { tokens = 1000 }
}
