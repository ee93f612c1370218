terraform {
  required_version = ">= 1.9.0"

  required_providers {
    fleet = {
      source  = "sparecraft/fleet"
      version = "0.1.0"
    }
  }
}
