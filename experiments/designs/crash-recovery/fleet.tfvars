# How long a fail-over takes: three web servers with two cold standbys, each crashing every 25 s.
experiment = "crash-recovery"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "apache"
    nodes         = 3
    standby       = 2
    cpus          = 0.2
    memory_mb     = 128
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  web = { policy = "tad", replicas = 1, tokens = 16 }
}
