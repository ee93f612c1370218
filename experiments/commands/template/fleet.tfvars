# The fleet: which machines there are. Terraform's own format; the same file serves Docker and EC2.
experiment = "my-shop" # the name that its machines and results have

# cloud: a failed machine is replaced by a new one; on-prem: it is repaired, or a standby takes over.
scheme = "on-prem"

tiers = {
  # A tier is machines of one role behind one arbiter. Another tier that this one asks would stand here
  # too, and in this one's `calls = ["db"]`.
  web = {
    role          = "shop" # the folder roles/shop, or a role that Sparecraft brings (infra/roles)
    nodes         = 3
    standby       = 0
    cpus          = 0.2 # cores of each machine
    memory_mb     = 128
    nic_mbps      = 100 # Mbit/s of its network card
    disk_mbps     = 50  # MB/s of its disk
    instance_type = "t3.small" # on EC2 only
  }
}

# A tier that is named here has an arbiter: a proxy that chooses the server of each request, and can
# ask several for the same one. tokens: how many requests a server is given at a time.
arbiters = {
  web = { tokens = 16 }
}
