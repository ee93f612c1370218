# Machines whose service runs what it is sent, for the test of what a role that was taken over can reach.
experiment = "tst-taken"
scheme     = "on-prem"

tiers = {
  web = { role = "taken", nodes = 2, cpus = 0.3, memory_mb = 128, nic_mbps = 100, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  web = { tokens = 16 }
}
