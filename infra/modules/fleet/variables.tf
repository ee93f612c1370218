# This platform's own variables, with defaults; the fleet spec is in spec.tf.

variable "hosts" {
  type = list(object({
    name         = string
    address      = string
    domain       = optional(string)
    underlay     = optional(string)
    certificates = optional(string)
  }))
  default     = []
  description = <<-EOT
    Docker hosts of the fleet, the first of which builds images and has InfluxDB; without any the engine that DOCKER_HOST
    names. name; address (unix://, tcp:// with certificates, or ssh://); domain (what fails together: a rack, a power
    supply; by default each host is its own), underlay (IPv4 address by which the other hosts reach it; what they say to
    each other is not encrypted), certificates (folder of ca.pem, cert.pem and key.pem, for tcp).
  EOT

  validation {
    condition     = length(distinct(var.hosts[*].name)) == length(var.hosts) && length(var.hosts) <= 100 && alltrue([for host in var.hosts : can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", host.name))])
    error_message = "Expected at most 100 hosts, each with a name of its own that starts with a letter and is at most 20 of a-z, 0-9 and inner hyphens (got ${join(", ", var.hosts[*].name)})."
  }
  validation {
    condition     = length(var.hosts) < 2 || (alltrue([for host in var.hosts : can(cidrhost("${host.underlay}/32", 0))]) && length(distinct(var.hosts[*].underlay)) == length(var.hosts))
    error_message = "Expected each of several hosts to have an underlay address (IPv4) of its own (got ${join(", ", [for host in var.hosts : "${host.name}: ${host.underlay == null ? "none" : host.underlay}"])})."
  }
}

variable "underlay_mtu" {
  type        = number
  default     = 1500
  description = "Largest packet in bytes that the network between several hosts carries; the fleet's own are 50 less."

  validation {
    condition     = var.underlay_mtu >= 1280 && var.underlay_mtu <= 9216 && floor(var.underlay_mtu) == var.underlay_mtu
    error_message = "Expected a whole number of bytes from 1280 to 9216 (got ${var.underlay_mtu})."
  }
}

variable "data_cidr" {
  type        = string
  nullable    = false
  default     = "198.18.0.0/20"
  description = "Range of the data network, in 198.18.0.0/15 (reserved for benchmarking), a /20 or larger."

  validation {
    condition     = can(regex("^198\\.18\\.[0-9.]+/(16|17|18|19|20)$", var.data_cidr)) && can(cidrhost(var.data_cidr, 0)) && try(cidrhost(var.data_cidr, 0) == split("/", var.data_cidr)[0], false)
    error_message = "Expected an IPv4 network in 198.18.0.0/16 with a prefix of 16 to 20 (got \"${var.data_cidr}\")."
  }
}

variable "control_cidr" {
  type        = string
  nullable    = false
  default     = "198.19.0.0/20"
  description = "Range of the control network, in 198.18.0.0/15 (reserved for benchmarking), a /20 or larger."

  validation {
    condition     = can(regex("^198\\.19\\.[0-9.]+/(16|17|18|19|20)$", var.control_cidr)) && try(cidrhost(var.control_cidr, 0) == split("/", var.control_cidr)[0], false)
    error_message = "Expected an IPv4 network in 198.19.0.0/16 with a prefix of 16 to 20 (got \"${var.control_cidr}\")."
  }
}

variable "entry_port" {
  type        = number
  nullable    = false
  default     = 18080
  description = "Port on 127.0.0.1 that shows the first entry, for people; load goes to the direct address."

  validation {
    condition     = var.entry_port >= 1 && var.entry_port <= 65535
    error_message = "Expected a port from 1 to 65535 (got ${var.entry_port})."
  }
}

variable "entry_ports" {
  type        = map(number)
  nullable    = false
  default     = {}
  description = "Further entries to a port on 127.0.0.1 each."

  validation {
    condition     = length(setsubtract(keys(var.entry_ports), slice(local.entries, 1, length(local.entries)))) == 0
    error_message = "Expected entry_ports of entries after the first (${join(", ", slice(local.entries, 1, length(local.entries)))}) (got ${join(", ", keys(var.entry_ports))})."
  }
  validation {
    condition     = alltrue([for port in values(var.entry_ports) : port >= 1 && port <= 65535]) && length(distinct(concat(values(var.entry_ports), [var.entry_port]))) == length(var.entry_ports) + 1
    error_message = "Expected a port from 1 to 65535 for each, and each another than entry_port (got ${join(", ", values(var.entry_ports))})."
  }
}

variable "influxdb_port" {
  type        = number
  nullable    = false
  default     = 18086
  description = "Port on 127.0.0.1 that shows InfluxDB, for people."

  validation {
    condition     = var.influxdb_port >= 1 && var.influxdb_port <= 65535 && !contains(concat([var.entry_port], values(var.entry_ports)), var.influxdb_port)
    error_message = "Expected a port from 1 to 65535 other than entry_port and entry_ports (got ${var.influxdb_port})."
  }
}

variable "grafana_image" {
  type        = string
  default     = null
  description = "Image of Grafana 10.1 or later, already pulled, such as grafana/grafana:11.6.0. Without it there is no Grafana machine."
}

variable "grafana_port" {
  type        = number
  default     = 13000
  description = "Port on 127.0.0.1 that shows Grafana, when there is one."

  validation {
    condition     = var.grafana_port >= 1 && var.grafana_port <= 65535 && !contains(concat([var.entry_port, var.influxdb_port], values(var.entry_ports)), var.grafana_port)
    error_message = "Expected a port from 1 to 65535 other than entry_port and influxdb_port (got ${var.grafana_port})."
  }
}
