# Allowed connections: one group for each kind of interface, one line for each conversation. A line
# opens its port at both ends; what has no line is closed. Name service, time and the instance's
# metadata are AWS's own and pass no group.

locals {
  groups = merge(
    {
      egress           = "Way out of every machine: nothing comes in"
      agents           = "Control side of machines with a node agent"
      control-arbiters = "Control side of arbiters: their admin API"
      control-influxdb = "Control side of InfluxDB"
      runner           = "Control side of the runner"
      control-load     = "Control side of load machines"
      load             = "Data side of load machines"
      data-influxdb    = "Data side of InfluxDB: nothing is there"
    },
    { for tier in local.tier_names : "tier-${tier}" => "Data side of the machines of tier ${tier}" },
    { for tier in keys(var.arbiters) : "arbiter-${tier}" => "Data side of the arbiter of tier ${tier}" },
  )

  # The group that takes a tier's requests.
  front_of = { for tier in local.tier_names : tier => contains(keys(var.arbiters), tier) ? "arbiter-${tier}" : "tier-${tier}" }

  # name => from, to, ports (TCP): one, or the first and the last
  conversations = merge(
    {
      agents           = { from = "runner", to = "agents", ports = [local.agent_port] }
      admin            = { from = "runner", to = "control-arbiters", ports = [local.roles["arbiter"].port] }
      telemetry        = { from = "agents", to = "control-influxdb", ports = [local.roles["influxdb"].port] }
      runner-telemetry = { from = "runner", to = "control-influxdb", ports = [local.roles["influxdb"].port] }
      workers          = { from = "control-load", to = "runner", ports = [local.roles["load"].port] }
    },
    { for tier in local.entries : "entry-${tier}" => { from = "load", to = local.front_of[tier], ports = [local.tier_ports[tier]] } },
    { for tier in keys(var.arbiters) : "service-${tier}" => { from = "arbiter-${tier}", to = "tier-${tier}", ports = [local.tier_ports[tier]] } },
    merge([
      for tier, spec in var.tiers : { for called in spec.calls : "call-${tier}/${called}" => {
        from = "tier-${tier}", to = local.front_of[called], ports = [local.tier_ports[called]]
      } }
    ]...),
    # Neighbours of interference.iperf are machines of one tier; so are those that know each other's addresses.
    { for tier in local.tier_names : "iperf-${tier}" => { from = "tier-${tier}", to = "tier-${tier}", ports = local.iperf_ports } },
    { for tier, spec in var.tiers : "peers-${tier}" => {
      from = "tier-${tier}", to = "tier-${tier}", ports = [local.tier_ports[tier]]
    } if local.roles[spec.role].peers },
  )

  iperf_ports = [5201, 5400]

  # A network that is joined to the VPC, if one is named, may do the same as the runner.
  from_outside = var.runner_cidr == null ? {} : {
    for name, talk in local.conversations : name => talk if talk.from == "runner"
  }
}

resource "aws_security_group" "this" {
  for_each = local.groups

  name        = "sc-${var.experiment}-${each.key}"
  description = each.value
  vpc_id      = aws_vpc.this.id
  tags        = { Name = "sc-${var.experiment}-${each.key}" }
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  for_each = local.conversations

  security_group_id            = aws_security_group.this[each.value.to].id
  referenced_security_group_id = aws_security_group.this[each.value.from].id
  ip_protocol                  = "tcp"
  from_port                    = each.value.ports[0]
  to_port                      = reverse(each.value.ports)[0]
  description                  = each.key
}

resource "aws_vpc_security_group_egress_rule" "this" {
  for_each = local.conversations

  security_group_id            = aws_security_group.this[each.value.from].id
  referenced_security_group_id = aws_security_group.this[each.value.to].id
  ip_protocol                  = "tcp"
  from_port                    = each.value.ports[0]
  to_port                      = reverse(each.value.ports)[0]
  description                  = each.key
}

resource "aws_vpc_security_group_ingress_rule" "outside" {
  for_each = local.from_outside

  security_group_id = aws_security_group.this[each.value.to].id
  cidr_ipv4         = var.runner_cidr
  ip_protocol       = "tcp"
  from_port         = each.value.ports[0]
  to_port           = reverse(each.value.ports)[0]
  description       = "${each.key} from runner_cidr"
}

# Packages and AWS's APIs.
resource "aws_vpc_security_group_egress_rule" "internet" {
  for_each = { http = 80, https = 443 }

  security_group_id = aws_security_group.this["egress"].id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = each.value
  to_port           = each.value
  description       = each.key
}
