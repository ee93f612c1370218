# Two web servers in front of three machines of a Python service. Both roles are this folder's own.
experiment = "nginx-python"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "nginx"
    calls         = ["service"]
    nodes         = 2
    cpus          = 0.1
    memory_mb     = 64
    nic_mbps      = 100
    disk_mbps     = 50
    instance_type = "t3.small"
  }
  service = {
    role          = "dictionary"
    nodes         = 3
    cpus          = 0.4
    memory_mb     = 128
    nic_mbps      = 100
    disk_mbps     = 50
    instance_type = "t3.small"
  }
}

arbiters = {
  web     = { tokens = 32 }
  service = { tokens = 16 }
}
