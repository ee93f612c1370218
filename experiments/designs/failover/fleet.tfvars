# Two replicated servers, as in the paper, on a database and three naming servers; one replication manager; an arbiter for
# the strategy that asks it.
experiment = "failover"
scheme     = "on-prem"

tiers = {
  lots = {
    role          = "parking-lot"
    calls         = ["names", "database"]
    nodes         = 2
    cpus          = 0.5
    memory_mb     = 128
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.micro"
  }
  manager = {
    role          = "replication-manager"
    calls         = ["names"]
    nodes         = 1
    cpus          = 0.25
    memory_mb     = 64
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.micro"
  }
  names = {
    role          = "etcd"
    nodes         = 3
    cpus          = 0.5
    memory_mb     = 256
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.micro"
  }
  database = {
    role          = "parking-lot-database"
    nodes         = 1
    cpus          = 0.5
    memory_mb     = 256
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.micro"
  }
}

arbiters = {
  lots = { tokens = 64, cpus = 0.5, memory_mb = 128 }
}
