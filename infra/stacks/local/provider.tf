# The root module is infra/modules/fleet, whose files are linked here, with a provider: a module that may have
# `count` has none of its own.

provider "fleet" {
  hosts = [for host in var.hosts : { name = host.name, address = host.address, certificates = host.certificates }]
}
