# One Redis, for the end-to-end test of a capacity run.
experiment = "tst-node"
scheme     = "on-prem"

tiers = {
  store = { role = "redis", nodes = 1, cpus = 0.1, memory_mb = 384, nic_mbps = 1, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  store = { tokens = 1000 }
}

data_cidr     = "198.18.192.0/20"
control_cidr  = "198.19.192.0/20"
entry_port    = 18082
influxdb_port = 18088
