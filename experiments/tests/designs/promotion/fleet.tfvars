experiment = "tst-promotion"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "redis"
    calls         = ["sentinels"]
    nodes         = 2
    cpus          = 0.3
    memory_mb     = 256
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.small"
  }
  sentinels = {
    role          = "redis-sentinel"
    nodes         = 3
    cpus          = 0.1
    memory_mb     = 64
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.nano"
  }
}

arbiters = {
  store = { tokens = 16 }
}
