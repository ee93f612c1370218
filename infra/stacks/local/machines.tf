# Images of the roles in use, who may talk to whom, and the machines.

locals {
  root = "${path.module}/../../.."

  # Machines that measure and balance must not be the bottleneck.
  helper_nic_mbps  = 1000
  helper_disk_mbps = 200

  # A public account that may read the wiki and nothing else; the database is on the fleet's own network.
  database = { user = "wiki", password = "wiki-read", name = "wiki" }

  nodes = merge([
    for tier, spec in var.tiers : {
      for i in range(1, spec.nodes + spec.standby + 1) : "${tier}-${i}" => {
        tier          = tier
        role          = spec.role
        standby       = i > spec.nodes
        cpus          = spec.cpus
        memory_mb     = spec.memory_mb
        nic_mbps      = spec.nic_mbps
        disk_mbps     = spec.disk_mbps
        instance_type = spec.instance_type
        host          = local.node_hosts["${tier}-${i}"]
        ports         = {}
      }
    }
  ]...)

  arbiters = {
    for tier, spec in var.arbiters : "arbiter-${tier}" => {
      tier          = tier
      role          = "arbiter"
      standby       = false
      cpus          = spec.cpus
      memory_mb     = spec.memory_mb
      nic_mbps      = local.helper_nic_mbps
      disk_mbps     = local.helper_disk_mbps
      instance_type = null
      host          = local.arbiter_hosts[tier]
      ports         = tier == local.entry_tier ? { (local.services[var.tiers[tier].role].port) = var.entry_port } : {}
    }
  }

  influxdb = {
    influxdb-1 = {
      tier          = null
      role          = "influxdb"
      standby       = false
      cpus          = 1.0
      memory_mb     = 512
      nic_mbps      = local.helper_nic_mbps
      disk_mbps     = local.helper_disk_mbps
      instance_type = null
      host          = local.influxdb_host
      ports         = { (local.influxdb_http_port) = var.influxdb_port }
    }
  }

  machines = {
    for name, machine in merge(local.nodes, local.arbiters, local.influxdb) : name => merge(machine, {
      data_address    = cidrhost(var.data_cidr, machine.host)
      control_address = cidrhost(var.control_cidr, machine.host)
    })
  }

  # Where a tier's backend answers: the arbiter in front of it.
  backends = {
    for tier, spec in var.tiers : tier => {
      host = cidrhost(var.data_cidr, local.arbiter_hosts[spec.backend])
      port = tostring(local.services[var.tiers[spec.backend].role].port)
    } if spec.backend != null
  }

  # Settings that a role's start.sh reads.
  role_env = {
    for name, machine in local.machines : name => merge(
      { ROLE = machine.role },
      !contains(["apache", "mediawiki"], machine.role) || !contains(keys(local.backends), coalesce(machine.tier, "-")) ? {} : {
        DB_HOST     = local.backends[machine.tier].host
        DB_PORT     = local.backends[machine.tier].port
        DB_USER     = local.database.user
        DB_PASSWORD = local.database.password
        DB_NAME     = local.database.name
      },
      machine.role != "solr-ui" ? {} : {
        SOLR_HOST = local.backends[machine.tier].host
        SOLR_PORT = local.backends[machine.tier].port
      },
      # The tier's first machine takes the writes, the others follow it.
      machine.role != "redis" || name == "${coalesce(machine.tier, "-")}-1" ? {} : {
        REDIS_PRIMARY = cidrhost(var.data_cidr, local.node_hosts["${machine.tier}-1"])
      },
    )
  }

  arbiter_toml = {
    for name, machine in local.arbiters : name => templatefile("${path.module}/templates/arbiter.toml.tftpl", {
      tier     = machine.tier
      protocol = local.services[var.tiers[machine.tier].role].protocol
      listen   = "${local.machines[name].data_address}:${local.services[var.tiers[machine.tier].role].port}"
      admin    = "${local.machines[name].control_address}:${local.arbiter_admin_port}"
      policy   = var.arbiters[machine.tier].policy
      replicas = var.arbiters[machine.tier].replicas
      tokens   = var.arbiters[machine.tier].tokens
      cores    = var.tiers[machine.tier].cpus
      database = local.database
      servers = [
        for i in range(1, var.tiers[machine.tier].nodes + var.tiers[machine.tier].standby + 1) : {
          name    = "${machine.tier}-${i}"
          address = "${local.machines["${machine.tier}-${i}"].data_address}:${local.services[var.tiers[machine.tier].role].port}"
        }
      ]
    })
  }
}

locals {
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

resource "fleet_identity" "this" {
  experiment = var.experiment
  servers    = { for name, machine in local.machines : name => [machine.control_address] }
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
  published_ports = length(each.value.ports) == 0 ? null : each.value.ports

  files = merge(
    {
      "/etc/sparecraft/agent.toml" = {
        content = templatefile("${path.module}/templates/agent.toml.tftpl", {
          experiment   = var.experiment
          machine      = each.key
          tier         = each.value.tier
          role         = each.value.role
          listen       = "${each.value.control_address}:${local.agent_port}"
          data_address = each.value.data_address
          nic_mbps     = each.value.nic_mbps
          influxdb     = local.influxdb_url
        })
      }
      "/etc/sparecraft/role.env" = {
        content = join("", [for key, value in local.role_env[each.key] : "${key}=${value}\n"])
      }
      "/etc/sparecraft/tls/ca.pem" = {
        content = fleet_identity.this.ca_certificate_pem
      }
      "/etc/sparecraft/tls/cert.pem" = {
        content = fleet_identity.this.server_certificates[each.key].certificate_pem
      }
      "/etc/sparecraft/tls/key.pem" = {
        content = fleet_identity.this.server_certificates[each.key].private_key_pem
        mode    = "0600"
      }
    },
    each.value.role != "arbiter" ? {} : {
      "/etc/sparecraft/arbiter.toml" = { content = local.arbiter_toml[each.key] }
    },
  )
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
