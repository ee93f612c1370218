# A ring of three with three replicas of each row, and cards of 100 Mbit/s as in the paper (Limplock sections 4.1, 5.4).
experiment = "danger-zones-cassandra"
scheme     = "on-prem"

tiers = {
  ring = {
    role      = "cassandra"
    nodes     = 3
    cpus      = 2
    memory_mb = 900
    nic_mbps  = 100
    disk_mbps = 80
  }
}
