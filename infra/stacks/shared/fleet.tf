# The parts of a fleet on every platform: names, host numbers, ports, and each machine's files. The
# stacks have this file by a symbolic link. A platform gives `data_addresses` and `control_addresses`
# (machine name to address), `data_networks` (where the former are, no list of machines where one more
# would change every other), `influxdb_address` (where InfluxDB listens) and `platform_machines` (machines
# that only it has).

locals {
  templates = "${local.root}/infra/stacks/shared/templates"

  # Machines that measure and balance must not be the bottleneck.
  helper_nic_mbps  = 1000
  helper_disk_mbps = 200

  tier_names = sort(keys(var.tiers))

  influxdb_host = 5
  grafana_host  = 6
  arbiter_hosts = { for k, tier in local.tier_names : tier => 10 + k if contains(keys(var.arbiters), tier) }

  # Tier k has the block (k + 1).0, its machine i (from 1, standbys last) is (k + 1).(10 + i).
  machines_of = { for tier, spec in var.tiers : tier => [for i in range(1, spec.nodes + spec.standby + 1) : "${tier}-${i}"] }
  node_hosts = merge([
    for k, tier in local.tier_names : { for i, name in local.machines_of[tier] : name => 256 * (k + 1) + 11 + i }
  ]...)

  agent_port = 7443

  # The takers of a tier's requests: its arbiter, or its active machines if it has none.
  answering = {
    for tier, spec in var.tiers : tier =>
    contains(keys(var.arbiters), tier) ? ["arbiter-${tier}"] : slice(local.machines_of[tier], 0, spec.nodes)
  }
  tier_ports = { for tier, spec in var.tiers : tier => local.roles[spec.role].port }

  # For the inventory. A browser's address of a web page has no port.
  entry_endpoints = [
    for tier in local.entries : {
      tier     = tier
      protocol = local.roles[var.tiers[tier].role].protocol
      urls = [
        for name in local.answering[tier] : join("", [
          "${local.roles[var.tiers[tier].role].protocol}://${local.data_addresses[name]}",
          local.roles[var.tiers[tier].role].protocol == "http" && local.tier_ports[tier] == 80 ? "/" : ":${local.tier_ports[tier]}/",
        ])
      ]
    }
  ]
}

locals {
  nodes = merge([
    for tier, spec in var.tiers : {
      for i, name in local.machines_of[tier] : name => {
        tier          = tier
        role          = spec.role
        place         = i == 0 ? "first" : "others"
        standby       = i >= spec.nodes
        cpus          = spec.cpus
        memory_mb     = spec.memory_mb
        nic_mbps      = spec.nic_mbps
        disk_mbps     = spec.disk_mbps
        instance_type = spec.instance_type
        host          = local.node_hosts[name]
        image         = spec.image == null ? local.roles[spec.role].image_role : "${spec.role}-${tier}"
        stock         = spec.image == null ? local.roles[spec.role].stock : spec.image
      }
    }
  ]...)

  helper = {
    tier          = null
    place         = null
    standby       = false
    nic_mbps      = local.helper_nic_mbps
    disk_mbps     = local.helper_disk_mbps
    instance_type = null
    stock         = null
  }

  arbiters = {
    for tier, spec in var.arbiters : "arbiter-${tier}" => merge(local.helper, {
      tier      = tier
      role      = "arbiter"
      image     = "arbiter"
      cpus      = spec.cpus
      memory_mb = spec.memory_mb
      host      = local.arbiter_hosts[tier]
    })
  }

  influxdb = {
    influxdb-1 = merge(local.helper, {
      role      = "influxdb"
      image     = "influxdb"
      cpus      = 1.0
      memory_mb = 512
      host      = local.influxdb_host
    })
  }

  machines = {
    for name, machine in merge(local.nodes, local.arbiters, local.influxdb, local.platform_machines) : name => merge(machine, {
      data_address    = local.data_addresses[name]
      control_address = local.control_addresses[name]
    })
  }
}

# The names in braces that role.json may use.
locals {
  of_machine = {
    for name, node in local.nodes : name => {
      "{name}"    = name
      "{tier}"    = node.tier
      "{address}" = local.data_addresses[name]
      "{index}"   = tostring(index(local.machines_of[node.tier], name) + 1)
      "{nodes}"   = tostring(var.tiers[node.tier].nodes)
      "{first}"   = local.data_addresses[local.machines_of[node.tier][0]]
      "{peers}"   = join(",", [for peer in local.machines_of[node.tier] : "${peer}=${local.data_addresses[peer]}"])
    }
  }

  of_called = {
    for tier, spec in var.tiers : tier => {
      "{host}"     = local.data_addresses[local.answering[tier][0]]
      "{port}"     = tostring(local.tier_ports[tier])
      "{hosts}"    = join(",", [for name in local.answering[tier] : "${local.data_addresses[name]}:${local.tier_ports[tier]}"])
      "{user}"     = local.roles[spec.role].session.user
      "{password}" = local.roles[spec.role].session.password
      "{database}" = local.roles[spec.role].session.database
    }
  }

  # Each machine's settings before the braces are filled, and what fills them.
  stated_environment = {
    for name, node in local.nodes : name => concat(
      [for key, text in merge(local.roles[node.role].settings, local.roles[node.role].environment, local.roles[node.role].places[node.place]) : {
        key = key, text = text, values = local.of_machine[name]
      }],
      flatten([
        for called in var.tiers[node.tier].calls : [
          for key, text in local.roles[node.role].calls[local.call_of[node.role][var.tiers[called].role]].environment : {
            key = key, text = text, values = merge(local.of_machine[name], local.of_called[called])
          }
        ]
      ]),
    )
  }

  # One part of a text: a name in braces, a brace that opens none, or what has no brace.
  part = "\\{[A-Za-z0-9_]+\\}|\\{|[^{]+"

  helper_env = { influxdb-1 = { INFLUXDB_HTTP_BIND_ADDRESS = "${local.influxdb_address}:${local.roles["influxdb"].port}" } }

  role_env = {
    for name, machine in local.machines : name => merge({ ROLE = machine.role }, lookup(local.helper_env, name, {}), {
      for entry in lookup(local.stated_environment, name, []) :
      entry.key => join("", [for part in regexall(local.part, entry.text) : lookup(entry.values, part, part)])
    })
  }

  # A role's own files know the machine, its settings by their names, and the called tier where it is one.
  role_files_of = {
    for name, node in local.nodes : name => {
      for path, source in local.roles[node.role].files : path => {
        content = join("", [
          for part in regexall(local.part, file("${local.roles[node.role].folder}/${source}")) : lookup(merge(
            local.of_machine[name],
            length(var.tiers[node.tier].calls) == 1 ? local.of_called[var.tiers[node.tier].calls[0]] : {},
            { for key, value in local.role_env[name] : "{${key}}" => value },
          ), part, part)
        ])
        mode = "0644"
      }
    }
  }
}

locals {
  arbiter_toml = {
    for name, machine in local.arbiters : name => templatefile("${local.templates}/arbiter.toml.tftpl", {
      tier     = machine.tier
      protocol = local.roles[var.tiers[machine.tier].role].protocol
      listen   = "${local.data_addresses[name]}:${local.tier_ports[machine.tier]}"
      admin    = "${local.control_addresses[name]}:${local.roles["arbiter"].port}"
      tokens   = var.arbiters[machine.tier].tokens
      cores    = var.tiers[machine.tier].cpus
      session  = local.roles[var.tiers[machine.tier].role].session
      promoted = contains(
        [for tier in concat([machine.tier], var.tiers[machine.tier].calls) : var.tiers[tier].role],
        coalesce(local.roles[var.tiers[machine.tier].role].promoted_by, "-"),
      )
      servers = [
        for server in local.machines_of[machine.tier] :
        { name = server, address = "${local.data_addresses[server]}:${local.tier_ports[machine.tier]}" }
      ]
    })
  }

  # An owner of the authority's key may make clients already. An agent reads the pair from a file of its own, so
  # that neither the inventory nor any other file has to be secret.
  influxdb_url      = "http://${local.control_addresses["influxdb-1"]}:${local.roles["influxdb"].port}"
  influxdb_user     = "sparecraft"
  influxdb_password = substr(sha256("influxdb ${fleet_identity.this.ca_private_key_pem}"), 0, 32)
  influxdb_login    = "${local.influxdb_user}:${local.influxdb_password}"

  identity = {
    ca_certificate_pem     = fleet_identity.this.ca_certificate_pem
    client_certificate_pem = fleet_identity.this.client_certificate_pem
    client_private_key_pem = fleet_identity.this.client_private_key_pem
    influxdb_login         = local.influxdb_login
  }

  # The files in /etc/sparecraft of each machine.
  files = {
    for name, machine in local.machines : name => merge(
      {
        "/etc/sparecraft/agent.toml" = {
          content = templatefile("${local.templates}/agent.toml.tftpl", {
            experiment    = var.experiment
            machine       = name
            tier          = machine.tier
            role          = machine.role
            listen        = "${machine.control_address}:${local.agent_port}"
            data_address  = machine.data_address
            data_networks = local.data_networks
            nic_mbps      = machine.nic_mbps
            influxdb      = local.influxdb_url
          })
          mode = "0644"
        }
        "/etc/sparecraft/role.env" = {
          content = join("", [
            for key, value in local.role_env[name] : # quoted for a shell where it has to be
            "${key}=${can(regex("^[A-Za-z0-9_.,:/=@%+-]*$", value)) ? value : "'${replace(value, "'", "'\\''")}'"}\n"
          ])
          mode = "0644"
        }
        "/etc/sparecraft/influxdb-login" = {
          content = local.influxdb_login
          mode    = "0600"
        }
        "/etc/sparecraft/tls/ca.pem" = {
          content = fleet_identity.this.ca_certificate_pem
          mode    = "0644"
        }
        "/etc/sparecraft/tls/cert.pem" = {
          content = fleet_identity.this.server_certificates[name].certificate_pem
          mode    = "0644"
        }
        "/etc/sparecraft/tls/key.pem" = {
          content = fleet_identity.this.server_certificates[name].private_key_pem
          mode    = "0600"
        }
      },
      !contains(keys(local.arbiters), name) ? {} : {
        "/etc/sparecraft/arbiter.toml" = { content = local.arbiter_toml[name], mode = "0644" }
      },
      lookup(local.role_files_of, name, {}),
    )
  }
}

resource "fleet_identity" "this" {
  experiment = var.experiment
  servers    = { for name, machine in local.machines : name => [machine.control_address] }
}

output "identity" {
  description = "Credentials of a client of the node agents, and of InfluxDB: USER:PASSWORD."
  sensitive   = true
  value       = local.identity
}
