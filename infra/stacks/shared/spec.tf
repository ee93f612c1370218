# The fleet spec: what a design's fleet.tfvars says, the same for every platform. The stacks have this
# file by a symbolic link; what is a platform's own is in its variables.tf.

variable "experiment" {
  type        = string
  description = "Name of the experiment; part of every name on this platform."

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$", var.experiment))
    error_message = "Expected experiment to start with a letter and to be at most 30 of a-z, 0-9 and inner hyphens, came \"${var.experiment}\"."
  }
}

variable "scheme" {
  type        = string
  description = "What follows a failure: cloud (a machine is replaced) or on-prem (a fixed set with a cold standby pool)."

  validation {
    condition     = contains(["cloud", "on-prem"], var.scheme)
    error_message = "Expected scheme \"cloud\" or \"on-prem\", came \"${var.scheme}\"."
  }
}

variable "tiers" {
  type = map(object({
    role          = string
    backend       = optional(string)
    nodes         = number
    standby       = optional(number, 0)
    cpus          = number
    memory_mb     = number
    nic_mbps      = number
    disk_mbps     = number
    instance_type = optional(string)
  }))
  description = <<-EOT
    Tier name to its machines: role, backend (the tier that it calls, if any), nodes (running), standby (created,
    not started), cpus (cap), memory_mb, nic_mbps (Mbit/s), disk_mbps (MB/s), instance_type (for EC2 and prices).
  EOT

  validation {
    condition     = length(var.tiers) >= 1 && length(var.tiers) <= 10
    error_message = "Expected 1 to 10 tiers, came ${length(var.tiers)}."
  }
  validation {
    condition = alltrue([
      for name in keys(var.tiers) :
      can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", name)) && !contains(["arbiter", "influxdb", "grafana"], name)
    ])
    error_message = "Expected tier names to start with a letter, to be at most 20 of a-z, 0-9 and inner hyphens, and not to be arbiter, influxdb or grafana; came ${join(", ", keys(var.tiers))}."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : contains(["apache", "mediawiki", "mariadb", "memcached", "redis", "solr", "solr-ui"], tier.role)])
    error_message = "Expected role apache, mediawiki, mariadb, memcached, redis, solr or solr-ui, came ${join(", ", [for name, tier in var.tiers : "${name}: \"${tier.role}\""])}."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.nodes >= 1 && tier.standby >= 0 && tier.nodes + tier.standby <= 100])
    error_message = "Expected nodes >= 1, standby >= 0 and at most 100 machines a tier, came ${join(", ", [for name, tier in var.tiers : "${name}: ${tier.nodes} + ${tier.standby}"])}."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : floor(tier.nodes) == tier.nodes && floor(tier.standby) == tier.standby])
    error_message = "Expected nodes and standby to be whole numbers, came ${join(", ", [for name, tier in var.tiers : "${name}: ${tier.nodes} + ${tier.standby}"])}."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.cpus >= 0.1 && tier.memory_mb >= 64 && tier.nic_mbps >= 1 && tier.disk_mbps >= 1])
    error_message = "Expected cpus >= 0.1, memory_mb >= 64, nic_mbps >= 1 and disk_mbps >= 1, came ${join("; ", [for name, tier in var.tiers : "${name}: ${tier.cpus}, ${tier.memory_mb}, ${tier.nic_mbps}, ${tier.disk_mbps}"])}."
  }
  validation {
    condition     = alltrue([for tier in var.tiers : tier.backend == null ? true : contains(keys(var.tiers), tier.backend)])
    error_message = "Expected backend to name a tier (${join(", ", keys(var.tiers))}), came ${join(", ", [for name, tier in var.tiers : "${name}: \"${tier.backend}\"" if tier.backend != null])}."
  }
  validation {
    condition = alltrue([
      for tier in var.tiers : try(var.tiers[tier.backend].role, null) == lookup({ mediawiki = "mariadb", solr-ui = "solr" }, tier.role, try(var.tiers[tier.backend].role, null))
    ])
    error_message = "Expected a backend of role mariadb for every tier of role mediawiki, and of role solr for solr-ui; came ${join(", ", [for name, tier in var.tiers : "${name} (${tier.role}): ${try(var.tiers[tier.backend].role, "none")}" if contains(["mediawiki", "solr-ui"], tier.role)])}."
  }
  validation {
    condition = alltrue([
      for tier in var.tiers : tier.backend == null || contains(["apache", "mediawiki", "solr-ui"], tier.role)
    ])
    error_message = "Expected a backend only for roles that call one (apache, mediawiki, solr-ui), came ${join(", ", [for name, tier in var.tiers : "${name} (${tier.role})" if tier.backend != null])}."
  }
  validation {
    condition     = length(setsubtract(keys(var.tiers), [for tier in var.tiers : tier.backend if tier.backend != null])) == 1
    error_message = "Expected exactly one tier that is nobody's backend: the entry. Came ${length(setsubtract(keys(var.tiers), [for tier in var.tiers : tier.backend if tier.backend != null]))}: ${join(", ", setsubtract(keys(var.tiers), [for tier in var.tiers : tier.backend if tier.backend != null]))}."
  }
}

variable "arbiters" {
  type = map(object({
    policy    = string
    replicas  = number
    tokens    = number
    cpus      = optional(number, 1.0)
    memory_mb = optional(number, 256)
  }))
  description = <<-EOT
    Tier name to the arbiter in front of it: policy (a name of agents/README.md, such as round-robin or tad), replicas (requests sent per read), tokens
    (per server), cpus, memory_mb. Every tier has one.
  EOT

  validation {
    condition     = length(setsubtract(keys(var.tiers), keys(var.arbiters))) == 0
    error_message = "Expected an arbiter for every tier, none for: ${join(", ", setsubtract(keys(var.tiers), keys(var.arbiters)))}. Add it to arbiters."
  }
  validation {
    condition     = length(setsubtract(keys(var.arbiters), keys(var.tiers))) == 0
    error_message = "Expected arbiters of tiers only (${join(", ", keys(var.tiers))}), came also: ${join(", ", setsubtract(keys(var.arbiters), keys(var.tiers)))}."
  }
  validation {
    condition = alltrue([for arbiter in var.arbiters : contains([
      "round-robin", "random", "least-outstanding", "peak-ewma", "c3", "hot-cold", "hedge", "tad-paper", "tad",
    ], arbiter.policy)])
    error_message = "Expected policy round-robin, random, least-outstanding, peak-ewma, c3, hot-cold, hedge, tad-paper or tad, came ${join(", ", [for name, arbiter in var.arbiters : "${name}: \"${arbiter.policy}\""])}."
  }
  validation {
    condition = alltrue([
      for name, arbiter in var.arbiters :
      floor(arbiter.replicas) == arbiter.replicas && arbiter.replicas >= 1 && arbiter.replicas <= try(var.tiers[name].nodes, 1000)
    ])
    error_message = "Expected replicas to be a whole number from 1 to the tier's nodes, came ${join(", ", [for name, arbiter in var.arbiters : "${name}: ${arbiter.replicas} of ${try(var.tiers[name].nodes, "?")}"])}."
  }
  validation {
    condition     = alltrue([for arbiter in var.arbiters : floor(arbiter.tokens) == arbiter.tokens && arbiter.tokens >= 1 && arbiter.tokens <= 1000])
    error_message = "Expected tokens to be a whole number from 1 to 1000, came ${join(", ", [for name, arbiter in var.arbiters : "${name}: ${arbiter.tokens}"])}."
  }
  validation {
    condition     = alltrue([for arbiter in var.arbiters : arbiter.cpus >= 0.1 && arbiter.memory_mb >= 64])
    error_message = "Expected cpus >= 0.1 and memory_mb >= 64, came ${join("; ", [for name, arbiter in var.arbiters : "${name}: ${arbiter.cpus}, ${arbiter.memory_mb}"])}."
  }
}
