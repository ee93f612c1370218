# Cloud: three web servers that are made anew when they crash, once a minute each.
experiment = "schemes-cloud"
scheme     = "cloud"

tiers = {
  web = {
    role          = "apache"
    nodes         = 3
    standby       = 0
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
