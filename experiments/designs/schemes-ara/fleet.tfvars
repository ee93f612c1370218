# Active route anywhere: four web servers of which three are needed, each crashing every 75 s.
experiment = "schemes-ara"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "mediawiki"
    calls         = ["db"]
    nodes         = 4
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
