terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "6.47.0"
    }
    fleet = {
      source  = "sparecraft/fleet"
      version = "0.1.0"
    }
  }
}

# Credentials and endpoints are the environment's. What a tag can be put on carries these two; the
# machine's own come with it.
provider "aws" {
  region = var.region

  default_tags {
    tags = {
      "sparecraft:experiment" = var.experiment
      "sparecraft:expires"    = var.expires
    }
  }
}

# Makes certificates only.
provider "fleet" {
  docker = false
}
