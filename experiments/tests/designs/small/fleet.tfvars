# The smallest fleet with two tiers and something to choose from, for the end-to-end tests.
experiment = "tst-small"
scheme     = "on-prem"

tiers = {
  web = { role = "mediawiki", backend = "db", nodes = 2, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  db  = { role = "mariadb", nodes = 2, cpus = 0.5, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  web = { policy = "round-robin", replicas = 1, tokens = 2 }
  db  = { policy = "round-robin", replicas = 1, tokens = 12 }
}

entry_port    = 18081
influxdb_port = 18087
