# sPARE's second application: a PHP front end over Solr, one query for each page.
experiment = "solr-noisy"
scheme     = "on-prem"

tiers = {
  ui = {
    role          = "solr-ui"
    calls         = ["search"]
    nodes         = 4
    standby       = 0
    cpus          = 0.12
    memory_mb     = 256
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
  search = {
    role          = "solr"
    nodes         = 4
    standby       = 0
    cpus          = 0.12
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  ui     = { tokens = 2 }
  search = { tokens = 3 }
}
