# No machine is made: programs run on this host. A design has a fleet; this one is not brought up.
experiment = "bitflips-compared"
scheme     = "cloud"

tiers = {
  store = { role = "redis", nodes = 1, cpus = 1, memory_mb = 384, nic_mbps = 100, disk_mbps = 80 }
}
