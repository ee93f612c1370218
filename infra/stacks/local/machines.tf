# Images of the roles in use, and the machines. What a machine is, fleet.tf says.

locals {
  platform_machines = {}

  # Ports on 127.0.0.1, for people.
  published = {
    "arbiter-${local.entry_tier}" = tomap({ (local.entry.port) = var.entry_port })
    influxdb-1                    = tomap({ (local.influxdb_http_port) = var.influxdb_port })
  }

  # The image of a role has the role's name, but for a role that is another one's under a second name.
  images = { for role in toset([for machine in local.machines : machine.role]) : role => lookup({ apache = "mediawiki" }, role, role) }

  # What a role's image takes from outside its own folder.
  image_files = {
    arbiter   = { "bin/arbiter" = "${local.root}/build/bin/arbiter" }
    memcached = { "records.py" = "${local.root}/infra/roles/records.py" }
    redis     = { "records.py" = "${local.root}/infra/roles/records.py" }
    solr = merge(
      { "gcide.py" = "${local.root}/infra/roles/mariadb/content/gcide.py" },
      { for jar in fileset("${local.root}/build/solr", "*.jar") : "lib/${jar}" => "${local.root}/build/solr/${jar}" },
    )
  }
}

resource "fleet_image" "role" {
  for_each = toset(values(local.images))

  tag        = "sparecraft/${each.key}:local"
  context    = "${local.root}/infra/roles/${each.key}"
  base_image = "sparecraft/base:bookworm"
  retain     = true
  files = merge(
    { "bin/nodeagent" = "${local.root}/build/bin/nodeagent" },
    lookup(local.image_files, each.key, {}),
  )
}

resource "fleet_machine" "this" {
  for_each = local.machines

  name       = each.key
  experiment = var.experiment
  role       = each.value.role
  tier       = each.value.tier
  standby    = each.value.standby
  image      = fleet_image.role[local.images[each.value.role]].id

  cpus      = each.value.cpus
  memory_mb = each.value.memory_mb
  nic_mbps  = each.value.nic_mbps
  disk_mbps = each.value.disk_mbps

  data            = { network = fleet_network.data.id, address = each.value.data_address }
  control         = { network = fleet_network.control.id, address = each.value.control_address }
  published_ports = lookup(local.published, each.key, null)

  files = local.files[each.key]
}

# Grafana runs from its own image, so it has no node agent and is not in the inventory's machines.
resource "fleet_machine" "grafana" {
  count = var.grafana_image == null ? 0 : 1

  name       = "grafana-1"
  experiment = var.experiment
  role       = "grafana"
  image      = var.grafana_image

  cpus      = 1.0
  memory_mb = 512
  nic_mbps  = local.helper_nic_mbps
  disk_mbps = local.helper_disk_mbps

  data            = { network = fleet_network.data.id, address = cidrhost(var.data_cidr, local.grafana_host) }
  control         = { network = fleet_network.control.id, address = cidrhost(var.control_cidr, local.grafana_host) }
  published_ports = { (local.grafana_http_port) = var.grafana_port }

  environment = { INFLUXDB_URL = local.influxdb_url }
  files = merge(
    {
      for file in fileset("${local.root}/grafana/container", "**") :
      "/${file}" => { content = file("${local.root}/grafana/container/${file}") }
    },
    {
      for file in fileset("${local.root}/grafana/generated", "*.json") :
      "/etc/grafana/dashboards/${file}" => { content = file("${local.root}/grafana/generated/${file}") }
    },
  )
}
