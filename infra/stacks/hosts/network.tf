# Which host each machine is, by name, and with it its addresses: the hosts' own. Nothing is shared: a host
# is one machine.

locals {
  machine_names = sort(concat(keys(local.node_hosts), [for tier in keys(local.arbiter_hosts) : "arbiter-${tier}"], ["influxdb-1"]))

  # If there are too few, hosts are named twice, and the plan refuses (machines.tf).
  host_of = { for i, name in local.machine_names : name => var.hosts[i % length(var.hosts)] }

  data_addresses    = { for name, host in local.host_of : name => host.data_address }
  data_networks     = [for address in sort(values(local.data_addresses)) : "${address}/32"]
  control_addresses = { for name, host in local.host_of : name => host.address }

  influxdb_address = local.control_addresses["influxdb-1"]
}
