# Active route anywhere: four web servers of which three are needed, each crashing once a minute.
experiment = "schemes-ara"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "apache"
    nodes         = 4
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
