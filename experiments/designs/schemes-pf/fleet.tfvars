# Passive fail-over: three web servers and one cold standby, each crashing once a minute.
experiment = "schemes-pf"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "apache"
    nodes         = 3
    standby       = 1
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
