experiment = "tst-self-promotion"
scheme     = "on-prem"

tiers = {
  store = {
    role          = "mariadb-galera"
    nodes         = 3
    cpus          = 0.3
    memory_mb     = 384
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  store = { tokens = 16 }
}
