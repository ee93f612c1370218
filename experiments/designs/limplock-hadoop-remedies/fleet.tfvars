# A machine for jobs, one for their history, and three workers on an HDFS, with cards of 100 Mbit/s as in the paper (Limplock section 4.1).
experiment = "limplock-hadoop-remedies"
scheme     = "on-prem"

tiers = {
  jobs = {
    role      = "hadoop"
    calls     = ["files"]
    nodes     = 5
    cpus      = 2
    memory_mb = 2048
    nic_mbps  = 100
    disk_mbps = 80
  }
  files = {
    role      = "hdfs"
    nodes     = 3
    cpus      = 2
    memory_mb = 384
    nic_mbps  = 100
    disk_mbps = 80
  }
}
