# One tier: four machines that are one web server. No arbiter: users ask the machines in turn, as in the report.
experiment = "press-faults"
scheme     = "on-prem"

tiers = {
  web = {
    role          = "press"
    nodes         = 4
    cpus          = 0.25
    memory_mb     = 256
    nic_mbps      = 100
    disk_mbps     = 80
    instance_type = "t3.small"
  }
}
