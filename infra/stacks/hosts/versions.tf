terraform {
  required_version = ">= 1.9.0"

  required_providers {
    fleet = {
      source  = "sparecraft/fleet"
      version = "0.1.0"
    }
  }
}

# Makes certificates only: the hosts are there.
provider "fleet" {
  docker = false
}
