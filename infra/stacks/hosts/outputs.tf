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

output "identity" {
  description = "Credentials of a client of the node agents, and of InfluxDB: USER:PASSWORD."
  sensitive   = true
  value = {
    ca_certificate_pem     = fleet_identity.this.ca_certificate_pem
    client_certificate_pem = fleet_identity.this.client_certificate_pem
    client_private_key_pem = fleet_identity.this.client_private_key_pem
    influxdb_login         = local.influxdb_login
  }
}

output "settings" {
  description = "Machine to its host, its role's folder and its files, keys among them."
  sensitive   = true
  value       = local.settings
}
