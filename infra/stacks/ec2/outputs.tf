locals {
  fleet = {
    experiment = var.experiment
    platform   = "ec2"
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
        instance_type = contains(keys(local.nodes), name) ? machine.instance_type : var.helper_instance_type
        usd_per_hour  = lookup(var.usd_per_hour, coalesce(contains(keys(local.nodes), name) ? machine.instance_type : var.helper_instance_type, "-"), null)
      }
    ]
    endpoints = {
      entries  = local.entry_endpoints
      influxdb = local.influxdb_url
      grafana  = null
    }
  }
}

output "fleet" {
  description = "The inventory: every machine with a node agent, and the service's addresses. Other software needs no knowledge of the platform."
  value       = local.fleet
}

output "load" {
  description = "The machines that generate load: instance, control address and price of each; the runner, for `aws ssm start-session --target`; and the bucket with the fleet's prefix."
  value = {
    runner = aws_instance.this[local.runner].id
    bucket = local.bucket
    prefix = local.prefix
    machines = [
      for name, host in local.load_hosts : {
        name          = name
        instance      = aws_instance.this[name].id
        address       = local.control_addresses[name]
        instance_type = var.load_instance_type
        usd_per_hour  = lookup(var.usd_per_hour, var.load_instance_type, null)
      }
    ]
  }
}
