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

  influxdb_url = "http://${cidrhost(var.control_cidr, local.influxdb_host)}:${local.influxdb_http_port}"

  # The tier that is nobody's backend; the variables' validation makes sure that it is one.
  entry_tier = one(setsubtract(keys(var.tiers), [for tier in var.tiers : tier.backend if tier.backend != null]))
  entry      = local.services[var.tiers[local.entry_tier].role]
}
