variable "design" {
  type        = string
  description = "Folder of the design (fleet.tfvars, experiment.toml, its own roles/), or the name of one that Sparecraft contains, such as mediawiki-noisy."

  validation {
    condition     = fileexists("${var.design}/experiment.toml") || can(regex("^[a-z0-9-]+$", var.design))
    error_message = "Expected a folder with experiment.toml, or a design's name (got \"${var.design}\"). `sparecraft init NAME` makes one."
  }
}

variable "keep_fleet" {
  type        = bool
  default     = false
  description = "Make the design's fleet part of this configuration: runs measure it unchanged, and destroy removes it. By default a run makes the fleet and removes it at its end."

  validation {
    condition     = !var.keep_fleet || fileexists("${local.folder}/fleet.tfvars")
    error_message = "Expected a design with a fleet.tfvars (got \"${var.design}\", which has none in ${local.folder}). Give a folder, or the name of a folder of experiments/designs."
  }
}

variable "checkout" {
  type        = string
  default     = null
  description = "Folder of a checkout of Sparecraft with built agents; by default the checkout of this module. A module from git has no built agents."
}

variable "results" {
  type        = string
  default     = "results"
  description = "Folder of runs, relative to Terraform's working directory. Destroy keeps it."
}

variable "seed" {
  type        = number
  default     = null
  description = "Seed of arrivals, neighbours and faults; by default the design's, or a new one."
}

variable "quiet_wait_s" {
  type        = number
  default     = null
  description = "Most seconds that each block of load may wait until other work leaves the host; disturbed blocks are measured again. By default a run does not wait."
}

variable "triggers" {
  type        = map(string)
  default     = {}
  description = "Any value. A change of it runs the experiment again, as does a change of a file of the design."
}

variable "fail_on_slo" {
  type        = bool
  default     = false
  description = "Fail the apply if the SLO is missed or the run is not valid."
}

variable "command" {
  type        = string
  default     = "sparecraft"
  description = "The `sparecraft` command: a path, or a name on PATH."
}
