# Two networks: faults touch the data side only, management always gets through on the control side.
# A machine has the same host number in both.

resource "fleet_network" "data" {
  name       = "sc-${var.experiment}-data"
  experiment = var.experiment
  cidr       = var.data_cidr
}

resource "fleet_network" "control" {
  name       = "sc-${var.experiment}-control"
  experiment = var.experiment
  cidr       = var.control_cidr
  internal   = true # Docker then publishes ports on the data network, where the services listen
}

locals {
  hosts = merge(
    local.node_hosts,
    { for tier, host in local.arbiter_hosts : "arbiter-${tier}" => host },
    { influxdb-1 = local.influxdb_host },
  )
  data_addresses    = { for name, host in local.hosts : name => cidrhost(var.data_cidr, host) }
  data_networks     = [var.data_cidr]
  control_addresses = { for name, host in local.hosts : name => cidrhost(var.control_cidr, host) }

  influxdb_url = "http://${local.control_addresses["influxdb-1"]}:${local.roles["influxdb"].port}"
}
