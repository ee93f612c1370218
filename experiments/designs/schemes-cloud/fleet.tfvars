# Cloud: three web servers that are made anew when they crash, every 75 s each.
experiment = "schemes-cloud"
scheme     = "cloud"

tiers = {
  web = {
    role          = "mediawiki"
    calls         = ["db"]
    nodes         = 3
    cpus          = 0.4
    memory_mb     = 384
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
  db = {
    role          = "mariadb"
    nodes         = 1
    cpus          = 0.6
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  web = { tokens = 4 }
  db  = { tokens = 24 }
}
