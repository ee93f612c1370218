variable "design" {
  type        = string
  description = "Folder of the design (fleet.tfvars, experiment.toml, its own roles/), or the name of one that comes with Sparecraft, such as mediawiki-noisy."

  validation {
    condition     = fileexists("${var.design}/experiment.toml") || can(regex("^[a-z0-9-]+$", var.design))
    error_message = "Expected a folder with experiment.toml, or a design's name (got \"${var.design}\"). `sparecraft init NAME` makes one."
  }
}

variable "keep_fleet" {
  type        = bool
  default     = false
  description = "Make the design's fleet a part of this configuration, which measures it as it is and removes it at destroy. By default the run makes the fleet and removes it at its end."
}

variable "checkout" {
  type        = string
  default     = null
  description = "Folder of a checkout of Sparecraft whose agents are built; by default the one that this module is in. A module from git has none of its own."
}

variable "results" {
  type        = string
  default     = "results"
  description = "Folder that runs are kept in, from where Terraform is called. Destroy leaves it."
}

variable "seed" {
  type        = number
  default     = null
  description = "Seed of arrivals, neighbours and faults; by default the design's, or a new one."
}

variable "triggers" {
  type        = map(string)
  default     = {}
  description = "Anything: when it changes, the experiment is run again. It is too when a file of the design changes."
}

variable "fail_on_slo" {
  type        = bool
  default     = false
  description = "Fail the apply where the SLO was missed or the run is not valid."
}

variable "command" {
  type        = string
  default     = "sparecraft"
  description = "The `sparecraft` command: a path, or a name on PATH."
}
