# Two web servers and a standby, for tests of fail-over.
experiment = "tst-failover"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "apache"
    nodes         = 2
    standby       = 1
    cpus          = 0.2
    memory_mb     = 128
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}

arbiters = {
  web = { tokens = 16 }
}

# Ranges and ports of its own: a fleet that is up on this host is not in the way, and not touched.
data_cidr     = "198.18.64.0/20"
control_cidr  = "198.19.64.0/20"
entry_port    = 18180
influxdb_port = 18186
