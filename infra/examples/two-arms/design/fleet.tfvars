# Two small servers that count in PHP.
experiment = "two-arms"
scheme     = "on-prem"

tiers = {
  web = { role = "apache", nodes = 2, cpus = 0.2, memory_mb = 128, nic_mbps = 100, disk_mbps = 50, instance_type = "t3.small" }
}

arbiters = {
  web = { tokens = 16 }
}

# Of its own, so that another fleet of this host is not in the way.
data_cidr     = "198.18.176.0/20"
control_cidr  = "198.19.176.0/20"
entry_port    = 18190
influxdb_port = 18196
