# Three Redis tiers for tests of settings: one that arms set, with a standby; one that none sets;
# one without an arbiter.
experiment = "tst-settings"
scheme     = "on-prem"

tiers = {
  store  = { role = "redis", nodes = 1, standby = 1, cpus = 0.2, memory_mb = 384, nic_mbps = 10, disk_mbps = 80 }
  other  = { role = "redis", nodes = 1, cpus = 0.2, memory_mb = 384, nic_mbps = 10, disk_mbps = 80 }
  direct = { role = "redis", nodes = 1, standby = 1, cpus = 0.2, memory_mb = 384, nic_mbps = 10, disk_mbps = 80 }
}

arbiters = {
  store = { tokens = 4 }
  other = {}
}
