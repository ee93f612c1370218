output "fleet" {
  description = "The inventory: every machine with a node agent, and the service's addresses. Other software needs no knowledge of the platform."
  value = {
    experiment = var.experiment
    platform   = "hosts"
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
        usd_per_hour  = local.host_of[name].usd_per_hour
      }
    ]
    endpoints = {
      entries  = local.entry_endpoints
      influxdb = local.influxdb_url
      grafana  = null
    }
  }
}

output "settings" {
  description = "Machine to its host, its role's folder and its files, keys among them."
  sensitive   = true
  value       = local.settings
}
