# Images of the roles in use, and the machines. What a machine is, fleet.tf says.

locals {
  platform_machines = {}

  # Ports on 127.0.0.1, for people: those of the main entry, of others that are named, and InfluxDB's.
  entry_ports = merge({ (local.entries[0]) = var.entry_port }, var.entry_ports)
  published = merge(
    { for tier, port in local.entry_ports : local.answering[tier][0] => tomap({ (local.tier_ports[tier]) = port }) },
    { influxdb-1 = tomap({ (local.roles["influxdb"].port) = var.influxdb_port }) },
  )

  # Image to a machine that has it.
  image_machines = { for name, machine in local.machines : machine.image => machine... }
  images         = { for image, machines in local.image_machines : image => machines[0] }

  # Image to the hosts that have it: the first, which builds, and those of its machines.
  image_hosts = {
    for image in keys(local.images) : image => [
      for k, host in local.host_names : host
      if k == 0 || contains([for name, machine in local.machines : local.host_of[name] if machine.image == image], host)
    ]
  }
}

locals {
  # Roles on a stock image, and those whose image is built here first.
  on_stock  = { for image, machine in local.images : image => machine if machine.stock != null || try(local.roles[machine.role].context, null) != null }
  to_build  = { for image, machine in local.on_stock : image => machine if machine.stock == null }
  stock_dir = "${local.root}/infra/roles/stock"

  # The service's process as role.json states it, in a shell's words: the rest is the image's own.
  process_arguments = {
    for image, machine in local.on_stock : image => merge(
      { ROLE_PORT = tostring(local.roles[machine.role].port), ROLE_RESTART = try(local.roles[machine.role].process.restart, false) ? "yes" : "" },
      {
        for argument, words in {
          STOCK_ENTRYPOINT  = try(local.roles[machine.role].process.entrypoint, null)
          STOCK_COMMAND     = try(local.roles[machine.role].process.command, local.roles[machine.role].process.entrypoint == null ? null : [], null)
          STOCK_HEALTHCHECK = try(local.roles[machine.role].process.healthcheck, null)
        } : argument => join(" ", [for word in words : "'${replace(word, "'", "'\\''")}'"]) if words != null
      },
      {
        for argument, text in {
          STOCK_USER    = try(local.roles[machine.role].process.user, null)
          STOCK_WORKDIR = try(local.roles[machine.role].process.workdir, null)
        } : argument => text if text != null
      },
    )
  }
}

# The stock image of a role that brings what it is built from.
resource "fleet_image" "context" {
  for_each = local.to_build

  tag        = "sparecraft/${var.experiment}-${each.key}-stock:local"
  context    = "${local.roles[each.value.role].folder}/context"
  dockerfile = try(local.roles[each.value.role].context.dockerfile, "Dockerfile")
  target     = try(local.roles[each.value.role].context.target, null)
  build_args = try(local.roles[each.value.role].context.arguments, null)
  retain     = true
  hosts      = [local.host_names[0]]
}

# A stock image gets the agent and its tools added; Docker pulls it where it is not here.
resource "fleet_image" "role" {
  for_each = local.images

  tag         = "sparecraft/${local.roles[each.value.role].own || each.key != local.roles[each.value.role].image_role ? "${var.experiment}-" : ""}${each.key}:local"
  context     = local.roles[each.value.role].folder
  dockerfile  = contains(keys(local.on_stock), each.key) ? "stock.Dockerfile" : "Dockerfile"
  stock_image = contains(keys(local.to_build), each.key) ? fleet_image.context[each.key].id : each.value.stock
  build_args  = lookup(local.process_arguments, each.key, null)
  base_image  = "sparecraft/base:bookworm"
  retain      = true
  hosts       = local.image_hosts[each.key]
  ignore = concat( # no part of what a machine runs
    ["role.json", "workload.py", "README.md", "**/__pycache__"],
    contains(keys(local.to_build), each.key) ? ["context"] : [],
  )
  files = merge(
    { "bin/nodeagent" = "${local.root}/build/bin/nodeagent" },
    !contains(keys(local.on_stock), each.key) ? {} : {
      "stock.Dockerfile"  = "${local.stock_dir}/Dockerfile"
      "stock/assemble.sh" = "${local.stock_dir}/assemble.sh"
      "stock/start.sh"    = "${local.stock_dir}/start.sh"
      "stock/ready.sh"    = "${local.stock_dir}/ready.sh"
    },
    local.roles[each.value.role].build,
  )
}

resource "fleet_machine" "this" {
  for_each = local.machines

  name       = each.key
  host       = local.host_of[each.key]
  experiment = var.experiment
  role       = each.value.role
  tier       = each.value.tier
  standby    = each.value.standby
  image      = fleet_image.role[each.value.image].ids[local.host_of[each.key]]

  cpus      = each.value.cpus
  memory_mb = each.value.memory_mb
  nic_mbps  = each.value.nic_mbps
  disk_mbps = each.value.disk_mbps

  data            = { network = fleet_network.data[local.host_of[each.key]].id, address = each.value.data_address }
  control         = { network = fleet_network.control[local.host_of[each.key]].id, address = each.value.control_address }
  published_ports = lookup(local.published, each.key, null)

  files = local.files[each.key]

  depends_on = [fleet_vxlan.this] # a machine that starts finds its peers, and one that ends leaves them properly
}

# Grafana runs from its own image, on the first host, so it has no node agent and is not in the inventory's machines.
resource "fleet_machine" "grafana" {
  count = var.grafana_image == null ? 0 : 1

  name       = "grafana-1"
  host       = local.host_names[0]
  experiment = var.experiment
  role       = "grafana"
  image      = var.grafana_image

  cpus      = 1.0
  memory_mb = 512
  nic_mbps  = local.helper_nic_mbps
  disk_mbps = local.helper_disk_mbps

  data            = { network = fleet_network.data[local.host_names[0]].id, address = cidrhost(var.data_cidr, local.grafana_host) }
  control         = { network = fleet_network.control[local.host_names[0]].id, address = cidrhost(var.control_cidr, local.grafana_host) }
  published_ports = { (local.roles["grafana"].port) = var.grafana_port }

  environment = {
    INFLUXDB_URL      = local.influxdb_url
    INFLUXDB_USER     = local.influxdb_user
    INFLUXDB_PASSWORD = local.influxdb_password
  }
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
