# The smallest fleet of a front end and Solr with something to choose from, for the end-to-end tests.
experiment = "tst-search"
scheme     = "on-prem"

tiers = {
  ui     = { role = "solr-ui", calls = ["search"], nodes = 1, cpus = 0.3, memory_mb = 256, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  search = { role = "solr", nodes = 2, cpus = 0.5, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  ui     = { tokens = 8 }
  search = { tokens = 8 }
}

data_cidr     = "198.18.192.0/20"
control_cidr  = "198.19.192.0/20"
entry_port    = 18082
influxdb_port = 18088
