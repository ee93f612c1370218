output "fleet" {
  description = "The inventory: every machine with a node agent, and the service's addresses. Other software needs no knowledge of the platform."
  value = {
    experiment = var.experiment
    platform   = "local"
    scheme     = var.scheme
    machines = [
      for name, machine in local.machines : {
        name          = name
        tier          = machine.tier
        role          = machine.role
        place         = machine.place
        standby       = machine.standby
        address       = machine.data_address
        agent_url     = "https://${machine.control_address}:${local.agent_port}"
        instance_type = machine.instance_type
        usd_per_hour  = null
      }
    ]
    endpoints = {
      entries  = local.entry_endpoints
      influxdb = local.influxdb_url
      grafana  = var.grafana_image == null ? null : "http://${cidrhost(var.control_cidr, local.grafana_host)}:${local.roles["grafana"].port}"
    }
  }
}

output "hosts" {
  description = "Machine to the Docker host that it is on."
  value       = { for name in keys(local.machines) : name => local.host_of[name] }
}

output "published" {
  description = "URLs for a browser on this host; over several hosts, on the host of that machine."
  value = {
    entries = [
      for tier in local.entries : { tier = tier, url = "${local.roles[var.tiers[tier].role].protocol}://127.0.0.1:${local.entry_ports[tier]}/" }
      if contains(keys(local.entry_ports), tier)
    ]
    influxdb = "http://127.0.0.1:${var.influxdb_port}"
    grafana  = var.grafana_image == null ? null : "http://127.0.0.1:${var.grafana_port}"
  }
}
