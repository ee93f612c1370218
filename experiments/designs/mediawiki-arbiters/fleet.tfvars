# The wiki of mediawiki-noisy: four web servers over three database replicas, each tier behind its arbiter.
experiment = "mediawiki-arbiters"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "mediawiki"
    calls         = ["db"]
    nodes         = 4
    standby       = 0
    cpus          = 0.35
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
  db = {
    role          = "mariadb"
    nodes         = 3
    standby       = 0
    cpus          = 0.15
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  web = { tokens = 1 }
  db  = { tokens = 12 }
}
