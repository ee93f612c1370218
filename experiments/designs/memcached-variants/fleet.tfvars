# One memcached whose processor is what fills up, not its card.
experiment = "memcached-variants"
scheme     = "on-prem"

tiers = {
  cache = {
    role          = "memcached"
    nodes         = 1
    cpus          = 0.25
    memory_mb     = 256
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  cache = { tokens = 64 }
}
