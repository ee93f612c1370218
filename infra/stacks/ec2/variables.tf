# This platform's own variables; the fleet spec is in spec.tf.

variable "region" {
  type        = string
  description = "AWS region, such as eu-west-1."

  validation {
    condition     = can(regex("^[a-z]{2,}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "Expected region to be the code of an AWS region, such as eu-west-1 (got \"${var.region}\")."
  }
}

variable "expires" {
  type        = string
  description = "When the fleet ends, in UTC, such as 2026-11-22T21:00:00Z: machines terminate themselves, and AWS's schedules remove the rest."

  validation {
    condition     = can(regex("^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$", var.expires)) && can(timeadd(var.expires, "0s"))
    error_message = "Expected expires as a time in UTC, such as 2026-11-22T21:00:00Z (got \"${var.expires}\")."
  }
}

variable "ttl_hours" {
  type        = number
  default     = 4
  description = "Largest time from an apply to expires [h]."

  validation {
    condition     = var.ttl_hours > 0 && var.ttl_hours <= 168
    error_message = "Expected ttl_hours above 0 and at most 168 (a week) (got ${var.ttl_hours})."
  }
}

variable "spot" {
  type        = bool
  default     = false
  description = "Use spot machines: cheaper, but AWS may reclaim them. Only for the scheme cloud, which replaces them."

  validation {
    condition     = !var.spot || var.scheme == "cloud"
    error_message = "Expected scheme \"cloud\" with spot: on-prem stops and starts machines, which spot machines do not support (got \"${var.scheme}\")."
  }
}

variable "placement" {
  type        = string
  default     = null
  description = "Placement group of the tiers' machines and arbiters: cluster (one zone, short distances), spread (separate racks, at most seven a zone) or none."

  validation {
    condition     = var.placement == null ? true : contains(["cluster", "spread"], var.placement)
    error_message = "Expected placement \"cluster\", \"spread\" or none (got \"${coalesce(var.placement, "none")}\")."
  }
}

variable "load_machines" {
  type        = number
  default     = 1
  description = "Machines that generate load. The first is the runner: Locust's master, and the only one with access to the agents; the others are workers."

  validation {
    condition     = var.load_machines >= 1 && var.load_machines <= 20 && floor(var.load_machines) == var.load_machines
    error_message = "Expected load_machines to be a whole number from 1 to 20 (got ${var.load_machines})."
  }
}

variable "load_instance_type" {
  type        = string
  default     = "c6i.large"
  description = "Instance type of the machines that generate load."
}

variable "helper_instance_type" {
  type        = string
  default     = "c6i.large"
  description = "Instance type of arbiters and of InfluxDB."
}

variable "ami" {
  type        = string
  default     = null
  description = "Image of every machine: Debian 12, amd64. By default Debian's newest at the creation of the fleet, which is kept."
}

variable "disk_gb" {
  type        = number
  default     = 16
  description = "Disk of every machine [GB], encrypted gp3."

  validation {
    condition     = var.disk_gb >= 8 && var.disk_gb <= 200
    error_message = "Expected disk_gb from 8 to 200 (got ${var.disk_gb})."
  }
}

variable "usd_per_hour" {
  type        = map(number)
  default     = {}
  description = "Instance type to its price [USD/h], for the inventory."
}

variable "vpc_cidr" {
  type        = string
  default     = "10.80.0.0/16"
  description = "Range of the fleet's own VPC, a /16 of 10.0.0.0/8. Load machines send only to it."

  validation {
    condition     = can(regex("^10\\..*/16$", var.vpc_cidr)) && try(cidrhost(var.vpc_cidr, 0) == split("/", var.vpc_cidr)[0], false)
    error_message = "Expected an IPv4 network of 10.0.0.0/8 with a prefix of 16 (got \"${var.vpc_cidr}\")."
  }
}

variable "runner_cidr" {
  type        = string
  default     = null
  description = "A further network with access to agents, admin APIs of arbiters and InfluxDB, which is joined to the VPC. None by default."

  validation {
    condition     = var.runner_cidr == null ? true : can(cidrhost(var.runner_cidr, 0)) && !endswith(var.runner_cidr, "/0")
    error_message = "Expected a network such as 10.1.0.0/24, and not all addresses (got \"${coalesce(var.runner_cidr, "none")}\")."
  }
}

variable "session_manager_key" {
  type        = string
  default     = null
  description = "File with AWS's public key of the signature of Session Manager's agent (from its documentation; it changes every year or two). Without it no machine has the agent."

  validation {
    condition     = var.session_manager_key == null ? true : can(regex("^-----BEGIN PGP PUBLIC KEY BLOCK-----", file(var.session_manager_key)))
    error_message = "Expected session_manager_key to be a file with a PGP public key (got \"${coalesce(var.session_manager_key, "none")}\")."
  }
}
