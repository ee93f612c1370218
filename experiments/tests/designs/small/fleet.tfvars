# The smallest fleet with two tiers and something to choose from, for the end-to-end tests.
experiment = "tst-small"
scheme     = "on-prem"

tiers = {
  web = { role = "mediawiki", calls = ["db"], nodes = 2, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  db  = { role = "mariadb", nodes = 2, cpus = 0.5, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  web = { tokens = 2 }
  db  = { tokens = 12 }
}

# Ranges and ports of its own: a fleet that is up on this host is not in the way, and not touched.
data_cidr     = "198.18.208.0/20"
control_cidr  = "198.19.208.0/20"
entry_port    = 18081
influxdb_port = 18087
