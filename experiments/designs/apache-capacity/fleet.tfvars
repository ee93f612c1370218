# One Apache with PHP; its wiki page needs a database, which has more CPU than it can use.
experiment = "apache-capacity"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "apache"
    calls         = ["db"]
    nodes         = 1
    cpus          = 0.15
    memory_mb     = 384
    nic_mbps      = 60
    disk_mbps     = 80
    instance_type = "t3.small"
  }
  db = {
    role          = "mariadb"
    nodes         = 1
    cpus          = 0.5
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  # One fewer than Apache has processes: a connection that is kept open holds one of them.
  web = { tokens = 7 }
  db  = { tokens = 1000 }
}
