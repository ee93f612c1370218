# What a fleet is made of on every platform: names, host numbers, ports, and each machine's files. The
# stacks have this file by a symbolic link. A platform gives `data_addresses` and `control_addresses`
# (machine name to address), `influxdb_url` and `platform_machines` (machines that only it has).

locals {
  root      = "${path.module}/../../.."
  templates = "${path.module}/../shared/templates"

  # Machines that measure and balance must not be the bottleneck.
  helper_nic_mbps  = 1000
  helper_disk_mbps = 200

  # A public account that may read the wiki and nothing else; the database is on the fleet's own network.
  database = { user = "wiki", password = "wiki-read", name = "wiki" }

  tier_names = sort(keys(var.tiers))

  influxdb_host = 5
  grafana_host  = 6
  arbiter_hosts = { for k, tier in local.tier_names : tier => 10 + k }

  # Tier k has the block (k + 1).0, its machine i (from 1, standbys last) is (k + 1).(10 + i).
  node_hosts = merge([
    for k, tier in local.tier_names : {
      for i in range(1, var.tiers[tier].nodes + var.tiers[tier].standby + 1) :
      "${tier}-${i}" => 256 * (k + 1) + 10 + i
    }
  ]...)

  # What a role listens on, and what its arbiter therefore speaks.
  services = {
    apache    = { protocol = "http", port = 80 }
    mediawiki = { protocol = "http", port = 80 }
    mariadb   = { protocol = "mysql", port = 3306 }
    memcached = { protocol = "memcached", port = 11211 }
    redis     = { protocol = "redis", port = 6379 }
    solr      = { protocol = "http", port = 8983 }
    solr-ui   = { protocol = "http", port = 80 }
  }

  agent_port         = 7443
  arbiter_admin_port = 9300
  influxdb_http_port = 8086
  grafana_http_port  = 3000

  # The tier that is nobody's backend; the variables' validation makes sure that it is one.
  entry_tier = one(setsubtract(keys(var.tiers), [for tier in var.tiers : tier.backend if tier.backend != null]))
  entry      = local.services[var.tiers[local.entry_tier].role]
}

locals {
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
    }
  }

  machines = {
    for name, machine in merge(local.nodes, local.arbiters, local.influxdb, local.platform_machines) : name => merge(machine, {
      data_address    = local.data_addresses[name]
      control_address = local.control_addresses[name]
    })
  }

  # Where a tier's backend answers: the arbiter in front of it.
  backends = {
    for tier, spec in var.tiers : tier => {
      host = local.data_addresses["arbiter-${spec.backend}"]
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
        REDIS_PRIMARY = local.data_addresses["${machine.tier}-1"]
      },
    )
  }

  arbiter_toml = {
    for name, machine in local.arbiters : name => templatefile("${local.templates}/arbiter.toml.tftpl", {
      tier     = machine.tier
      protocol = local.services[var.tiers[machine.tier].role].protocol
      listen   = "${local.data_addresses[name]}:${local.services[var.tiers[machine.tier].role].port}"
      admin    = "${local.control_addresses[name]}:${local.arbiter_admin_port}"
      policy   = var.arbiters[machine.tier].policy
      replicas = var.arbiters[machine.tier].replicas
      tokens   = var.arbiters[machine.tier].tokens
      cores    = var.tiers[machine.tier].cpus
      database = local.database
      servers = [
        for i in range(1, var.tiers[machine.tier].nodes + var.tiers[machine.tier].standby + 1) : {
          name    = "${machine.tier}-${i}"
          address = "${local.data_addresses["${machine.tier}-${i}"]}:${local.services[var.tiers[machine.tier].role].port}"
        }
      ]
    })
  }

  # What lies in /etc/sparecraft of each machine.
  files = {
    for name, machine in local.machines : name => merge(
      {
        "/etc/sparecraft/agent.toml" = {
          content = templatefile("${local.templates}/agent.toml.tftpl", {
            experiment   = var.experiment
            machine      = name
            tier         = machine.tier
            role         = machine.role
            listen       = "${machine.control_address}:${local.agent_port}"
            data_address = machine.data_address
            nic_mbps     = machine.nic_mbps
            influxdb     = local.influxdb_url
          })
          mode = "0644"
        }
        "/etc/sparecraft/role.env" = {
          content = join("", [for key, value in local.role_env[name] : "${key}=${value}\n"])
          mode    = "0644"
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
      machine.role != "arbiter" ? {} : {
        "/etc/sparecraft/arbiter.toml" = { content = local.arbiter_toml[name], mode = "0644" }
      },
    )
  }
}

resource "fleet_identity" "this" {
  experiment = var.experiment
  servers    = { for name, machine in local.machines : name => [machine.control_address] }
}
