# The role and files of each host. Terraform decides it and makes the certificates; the platform `hosts` takes it there.

locals {
  platform_machines = {}

  settings = {
    for name, machine in local.machines : name => {
      host  = local.host_of[name].name
      role  = local.roles[machine.role].image_role
      files = local.files[name]
    }
  }
}

resource "terraform_data" "placed" {
  input = { for name, host in local.host_of : name => host.name }

  lifecycle {
    precondition {
      condition     = length(var.hosts) >= length(local.machine_names)
      error_message = "Expected a host for each of ${length(local.machine_names)} machines (${join(", ", local.machine_names)}) (got ${length(var.hosts)}: ${join(", ", var.hosts[*].name)})."
    }
    precondition {
      condition     = alltrue([for name, machine in local.machines : machine.cpus <= local.host_of[name].cores])
      error_message = "Expected each host to have the cores of its machine (got ${join(", ", [for name, machine in local.machines : "${name} of ${machine.cpus} on ${local.host_of[name].name} of ${local.host_of[name].cores}" if machine.cpus > local.host_of[name].cores])}). The order of hosts says which host is which machine."
    }
    precondition {
      condition     = var.scheme == "on-prem"
      error_message = "Expected scheme \"on-prem\" of hosts that are there (got \"${var.scheme}\": nothing replaces a host)."
    }
    precondition {
      condition     = alltrue([for tier in var.tiers : tier.image == null])
      error_message = "Expected no image for a tier of hosts, which install.sh makes what they are (got ${join(", ", [for name, tier in var.tiers : name if tier.image != null])})."
    }
  }
}
