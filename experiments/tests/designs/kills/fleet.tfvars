# The cheapest fleet with an arbiter and something to disturb, for the test that kills its parts.
experiment = "tst-kills"
scheme     = "on-prem"

tiers = {
  cache = { role = "memcached", nodes = 2, cpus = 0.2, memory_mb = 192, nic_mbps = 20, disk_mbps = 80, instance_type = "t3.small" }
}

arbiters = {
  cache = { tokens = 16 }
}
