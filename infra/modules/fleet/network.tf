# Two networks: faults touch the data side only, management always gets through on the control side.
# A machine has the same host number in both. Over several hosts each host has its bridge of both.

locals {
  # A host's own address: the first, and for further ones numbers that no machine has.
  gateway_numbers = { for k, host in local.host_names : host => k == 0 ? 1 : 100 + k }
  vxlan_bytes     = 50
  mtu             = local.several ? var.underlay_mtu - local.vxlan_bytes : null
}

resource "fleet_network" "data" {
  for_each = toset(local.host_names)

  name       = "sc-${var.experiment}-data"
  host       = each.key
  experiment = var.experiment
  cidr       = var.data_cidr
  gateway    = cidrhost(var.data_cidr, local.gateway_numbers[each.key])
  mtu        = local.mtu
}

resource "fleet_network" "control" {
  for_each = toset(local.host_names)

  name       = "sc-${var.experiment}-control"
  host       = each.key
  experiment = var.experiment
  cidr       = var.control_cidr
  gateway    = cidrhost(var.control_cidr, local.gateway_numbers[each.key])
  mtu        = local.mtu
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

  # On data too: Docker publishes its port there.
  influxdb_address = "0.0.0.0"
}
