# The fleet spec: what a design's fleet.tfvars says, the same for every platform. The stacks have this
# file by a symbolic link; what is a platform's own is in its variables.tf.

variable "experiment" {
  type        = string
  description = "Name of the experiment; part of every name on this platform."

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$", var.experiment))
    error_message = "Expected experiment to start with a letter and to be at most 30 of a-z, 0-9 and inner hyphens (got \"${var.experiment}\")."
  }
}

variable "scheme" {
  type        = string
  description = "The reaction to a failure: cloud (a machine is replaced) or on-prem (a fixed set with a cold standby pool)."

  validation {
    condition     = contains(["cloud", "on-prem"], var.scheme)
    error_message = "Expected scheme \"cloud\" or \"on-prem\" (got \"${var.scheme}\")."
  }
}

variable "tiers" {
  type = map(object({
    role          = string
    calls         = optional(list(string), [])
    nodes         = number
    standby       = optional(number, 0)
    cpus          = number
    memory_mb     = number
    nic_mbps      = number
    disk_mbps     = number
    instance_type = optional(string)
    image         = optional(string)
  }))
  description = <<-EOT
    Tier name to its machines: role, calls (the tiers that it calls), nodes (running), standby (created, not started),
    cpus (cap), memory_mb, nic_mbps (Mbit/s), disk_mbps (MB/s), instance_type (for EC2 and prices), image (a stock
    image in place of the role's own).
  EOT

  # The roles come first: everything else is looked up in them.
  validation {
    condition     = alltrue([for tier in var.tiers : length(lookup(local.unknown_role_keys, tier.role, [])) == 0])
    error_message = "Expected only keys of contracts/role.schema.json in role.json (got also ${join(", ", [for role, keys in local.unknown_role_keys : "${role}: ${join(" ", keys)}" if length(keys) > 0])})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : length(lookup(local.impossible_in_role, tier.role, [])) == 0])
    error_message = "Expected in role.json a protocol of ${join(", ", local.arbiter_contract.protocols[*].name)}, a port from 1 to 65535, names of roles and files of the folder (got ${join(", ", [for role, what in local.impossible_in_role : "${role}: ${join(" ", what)}" if length(what) > 0])})."
  }
  validation {
    condition     = length(var.tiers) >= 1 && length(var.tiers) <= 10
    error_message = "Expected 1 to 10 tiers (got ${length(var.tiers)})."
  }
  validation {
    condition = alltrue([
      for name in keys(var.tiers) :
      can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", name)) && try(local.roles[name].tier, true)
    ])
    error_message = "Expected tier names to start with a letter, to be at most 20 of a-z, 0-9 and inner hyphens, and not to be a helper's (${join(", ", [for role, entry in local.roles : role if !entry.tier])}) (got ${join(", ", keys(var.tiers))})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : contains(local.tier_roles, tier.role)])
    error_message = "Expected a role of ${join(", ", local.tier_roles)} (got ${join(", ", [for name, tier in var.tiers : "${name}: \"${tier.role}\""])})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.nodes >= 1 && tier.standby >= 0 && tier.nodes + tier.standby <= 100])
    error_message = "Expected nodes >= 1, standby >= 0 and at most 100 machines a tier (got ${join(", ", [for name, tier in var.tiers : "${name}: ${tier.nodes} + ${tier.standby}"])})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : floor(tier.nodes) == tier.nodes && floor(tier.standby) == tier.standby && floor(tier.memory_mb) == tier.memory_mb])
    error_message = "Expected nodes, standby and memory_mb to be whole numbers (got ${join(", ", [for name, tier in var.tiers : "${name}: ${tier.nodes} + ${tier.standby}, ${tier.memory_mb}"])})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.cpus >= 0.1 && tier.cpus <= 256 && tier.memory_mb >= 64 && tier.nic_mbps >= 1 && tier.disk_mbps >= 1])
    error_message = "Expected cpus from 0.1 to 256, memory_mb >= 64, nic_mbps >= 1 and disk_mbps >= 1 (got ${join("; ", [for name, tier in var.tiers : "${name}: ${tier.cpus}, ${tier.memory_mb}, ${tier.nic_mbps}, ${tier.disk_mbps}"])})."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.instance_type != "" && tier.image != ""])
    error_message = "Expected instance_type and image to be left out or to name one (got an empty one)."
  }
  validation {
    condition = alltrue([
      for name, tier in var.tiers : length(distinct(tier.calls)) == length(tier.calls) && !contains(tier.calls, name)
      && length(setsubtract(tier.calls, keys(var.tiers))) == 0
    ])
    error_message = "Expected calls to name other tiers (${join(", ", keys(var.tiers))}), each once (got ${join(", ", [for name, tier in var.tiers : "${name}: ${join(" ", tier.calls)}" if length(tier.calls) > 0])})."
  }
  validation {
    condition = alltrue([
      for tier in var.tiers : !contains([for called in tier.calls : try(local.call_of[tier.role][var.tiers[called].role], -1)], -1)
    ])
    error_message = "Expected calls only to tiers that the caller's role.json has a call for (got ${join(", ", [for name, tier in var.tiers : "${name} (${tier.role}): ${join(" ", [for called in tier.calls : "${called} (${try(var.tiers[called].role, "none")})"])}" if length(tier.calls) > 0])})."
  }
  validation {
    condition = alltrue([
      for tier in var.tiers : length(tier.calls) == length(distinct([for called in tier.calls : try(local.call_of[tier.role][var.tiers[called].role], called)]))
    ])
    error_message = "Expected at most one called tier for each call of the role.json (got ${join(", ", [for name, tier in var.tiers : "${name} (${tier.role}): ${join(" ", tier.calls)}" if length(tier.calls) > 1])})."
  }
  validation {
    condition = alltrue(flatten([
      for tier in var.tiers : [
        for k, call in try(local.roles[tier.role].calls, []) :
        contains([for called in tier.calls : try(local.call_of[tier.role][var.tiers[called].role], -1)], k) if call.required
      ]
    ]))
    error_message = "Expected every tier to call what its role requires (${join("; ", [for role in local.tier_roles : "${role}: ${join(", ", [for call in local.roles[role].calls : join(" or ", call.roles) if call.required])}" if anytrue(local.roles[role].calls[*].required)])}) (got ${join(", ", [for name, tier in var.tiers : "${name} (${tier.role}): ${join(" ", [for called in tier.calls : try(var.tiers[called].role, "none")])}"])})."
  }
}

variable "arbiters" {
  type = map(object({
    tokens    = optional(number, 1)
    cpus      = optional(number, 1.0)
    memory_mb = optional(number, 256)
  }))
  default     = {}
  description = <<-EOT
    Tier name to the arbiter in front of it: tokens (per server), cpus, memory_mb. A tier that is not named has none, and
    its callers and the load reach its machines directly. Policy and replicas are an arm's.
  EOT

  validation {
    condition     = length(setsubtract(keys(var.arbiters), keys(var.tiers))) == 0
    error_message = "Expected arbiters of tiers only (${join(", ", keys(var.tiers))}) (got also ${join(", ", setsubtract(keys(var.arbiters), keys(var.tiers)))})."
  }
  validation {
    condition     = alltrue([for name in keys(var.arbiters) : try(local.roles[var.tiers[name].role].arbiter, true)])
    error_message = "Expected arbiters only for tiers whose role may have one (got ${join(", ", [for name in keys(var.arbiters) : "${name} (${try(var.tiers[name].role, "none")})" if !try(local.roles[var.tiers[name].role].arbiter, true)])})."
  }
  validation {
    condition = alltrue([
      for arbiter in var.arbiters : floor(arbiter.tokens) == arbiter.tokens
      && arbiter.tokens >= local.arbiter_contract.bounds.tokens.minimum && arbiter.tokens <= local.arbiter_contract.bounds.tokens.maximum
    ])
    error_message = "Expected tokens to be a whole number from ${local.arbiter_contract.bounds.tokens.minimum} to ${local.arbiter_contract.bounds.tokens.maximum} (got ${join(", ", [for name, arbiter in var.arbiters : "${name}: ${arbiter.tokens}"])})."
  }
  validation {
    condition     = alltrue([for arbiter in var.arbiters : arbiter.cpus >= 0.1 && arbiter.cpus <= 256 && arbiter.memory_mb >= 64 && floor(arbiter.memory_mb) == arbiter.memory_mb])
    error_message = "Expected cpus from 0.1 to 256 and memory_mb a whole number >= 64 (got ${join("; ", [for name, arbiter in var.arbiters : "${name}: ${arbiter.cpus}, ${arbiter.memory_mb}"])})."
  }
}

variable "entries" {
  type        = list(string)
  default     = null
  description = "Tiers that take load from outside, the main one first; by default those that no tier calls, by name."

  validation {
    condition     = var.entries == null ? true : length(var.entries) >= 1 && length(distinct(var.entries)) == length(var.entries) && length(setsubtract(coalesce(var.entries, []), keys(var.tiers))) == 0
    error_message = "Expected entries to name one tier or more of ${join(", ", keys(var.tiers))}, each once (got ${join(", ", coalesce(var.entries, []))})."
  }
  validation {
    condition     = length(local.calling_itself) == 0 && length(setsubtract(keys(var.tiers), flatten([for entry in var.entries == null ? local.uncalled : var.entries : [entry, try(local.reached_by[entry], [])]]))) == 0
    error_message = "Expected calls to lead from the entries (${join(", ", var.entries == null ? local.uncalled : var.entries)}) to every tier, and never back (got ${join(", ", [for tier, spec in var.tiers : "${tier}: ${join(" ", spec.calls)}" if length(spec.calls) > 0])}${length(local.calling_itself) > 0 ? ", a circle of ${join(" ", local.calling_itself)}" : ""})."
  }
}

locals {
  # Tier to all that its calls lead to. Each step doubles the length of the paths: 16 calls, for 10 tiers.
  reached_in_1 = { for tier, spec in var.tiers : tier => spec.calls }
  reached_in_2 = { for tier, reached in local.reached_in_1 : tier => distinct(concat(reached, flatten([for next in reached : local.reached_in_1[next]]))) }
  reached_in_4 = { for tier, reached in local.reached_in_2 : tier => distinct(concat(reached, flatten([for next in reached : local.reached_in_2[next]]))) }
  reached_in_8 = { for tier, reached in local.reached_in_4 : tier => distinct(concat(reached, flatten([for next in reached : local.reached_in_4[next]]))) }
  reached_by   = { for tier, reached in local.reached_in_8 : tier => distinct(concat(reached, flatten([for next in reached : local.reached_in_8[next]]))) }

  calling_itself = [for tier, reached in local.reached_by : tier if contains(reached, tier)]
  uncalled       = sort(setsubtract(keys(var.tiers), flatten([for tier in var.tiers : tier.calls])))
  entries        = var.entries == null ? local.uncalled : var.entries
}
