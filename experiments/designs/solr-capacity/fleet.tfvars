# One Solr.
experiment = "solr-capacity"
scheme     = "on-prem"

tiers = {
  search = {
    role          = "solr"
    nodes         = 1
    cpus          = 0.3
    memory_mb     = 512
    nic_mbps      = 200
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  search = { tokens = 1000 }
}
