# The hosts of machines: one engine, or several hosts that share the fleet's two networks.

locals {
  # Without var.hosts the engine is the one that DOCKER_HOST names, and the provider calls it so.
  pool = length(var.hosts) == 0 ? [{ name = "local", domain = "local", underlay = null }] : [
    for host in var.hosts : { name = host.name, domain = coalesce(host.domain, host.name), underlay = host.underlay }
  ]
  several    = length(local.pool) > 1
  host_names = local.pool[*].name

  domains  = distinct(local.pool[*].domain)
  hosts_in = { for domain in local.domains : domain => [for host in local.pool : host.name if host.domain == domain] }

  # Failure domains take turns, and in each of them its hosts do: of a tier's machines two domains differ by
  # one at most. A tier begins one turn after the tier before it. More nodes move no machine.
  turns = merge(
    { for name in keys(local.machines) : name => 0 },
    { for k, tier in local.tier_names : "arbiter-${tier}" => k if contains(keys(var.arbiters), tier) },
    merge([for k, tier in local.tier_names : { for i, name in local.machines_of[tier] : name => k + i }]...),
  )
  host_of = {
    for name, turn in local.turns : name =>
    element(local.hosts_in[element(local.domains, turn)], floor(turn / length(local.domains)))
  }
}

# One end of each network on each of several hosts: what they carry goes in UDP from underlay to underlay.
resource "fleet_vxlan" "this" {
  for_each = !local.several ? {} : merge([
    for side, vni in { data = local.vni, control = local.vni + 1 } : {
      for host in local.pool : "${side}-${host.name}" => { side = side, vni = vni, host = host }
    }
  ]...)

  experiment = var.experiment
  host       = each.value.host.name
  network    = (each.value.side == "data" ? fleet_network.data : fleet_network.control)[each.value.host.name].id
  image      = fleet_image.link[0].ids[each.value.host.name]
  vni        = each.value.vni
  address    = each.value.host.underlay
  peers      = [for other in local.pool : other.underlay if other.name != each.value.host.name]
}

# The image that the ends of the networks run from: the base image, which then need not be on every host.
resource "fleet_image" "link" {
  count = local.several ? 1 : 0

  tag        = "sparecraft/link:local"
  context    = "${local.root}/infra/modules/fleet/link"
  base_image = "sparecraft/base:bookworm"
  hosts      = local.host_names
  retain     = true
}

locals {
  vni = 2 * (1 + parseint(substr(sha1(var.experiment), 0, 5), 16)) # 2 to 2^21, and the next one
}
