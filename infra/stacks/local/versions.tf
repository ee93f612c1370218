terraform {
  required_version = ">= 1.9.0"

  required_providers {
    fleet = {
      source  = "sparecraft/fleet"
      version = "0.1.0"
    }
  }
}

provider "fleet" {
  hosts = [for host in var.hosts : { name = host.name, address = host.address, certificates = host.certificates }]
}
