# This platform's own variables; the fleet spec is in spec.tf.

variable "hosts" {
  type = list(object({
    name         = string
    address      = string
    data_address = string
    cores        = number
    usd_per_hour = optional(number)
  }))
  description = "The machines there are, in the order in which they are taken: name, address (where agents answer), data_address (of an interface that carries nothing else), cores, usd_per_hour."

  validation {
    condition     = length(distinct(var.hosts[*].name)) == length(var.hosts) && length(distinct(concat(var.hosts[*].address, var.hosts[*].data_address))) == 2 * length(var.hosts)
    error_message = "Expected every host to have a name and two addresses of its own (got ${join("; ", [for host in var.hosts : "${host.name}: ${host.address}, ${host.data_address}"])})."
  }
  validation {
    condition     = alltrue([for host in var.hosts : can(cidrhost("${host.address}/32", 0)) && can(cidrhost("${host.data_address}/32", 0))])
    error_message = "Expected IPv4 addresses (got ${join("; ", [for host in var.hosts : "${host.name}: ${host.address}, ${host.data_address}"])})."
  }
}
