# A VPC with three subnets in each of two zones: data and control have no way out, egress leads to
# the internet and lets nobody in. A machine has the same host number in its zone's three subnets.

data "aws_availability_zones" "usual" {
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

locals {
  zones = slice(sort(data.aws_availability_zones.usual.names), 0, 2)

  # Load machines are on the control network's first block, as arbiters and InfluxDB are.
  load_hosts = { for i in range(1, var.load_machines + 1) : "load-${i}" => 100 + i }

  hosts = merge(
    local.node_hosts,
    { for tier, host in local.arbiter_hosts : "arbiter-${tier}" => host },
    { influxdb-1 = local.influxdb_host },
    local.load_hosts,
  )

  # Machine i of a tier is in zone i mod 2, so that a zone's end is not a tier's; a cluster has one zone.
  zone_of = {
    for name, host in local.hosts : name =>
    contains(keys(local.node_hosts), name) && var.placement != "cluster" ? (host + 1) % 2 : 0
  }

  # /20 each: data of zone a and b, control of a and b, egress of a and b.
  networks = ["data", "control", "egress"]
  subnets = {
    for pair in setproduct(local.networks, [0, 1]) : "${pair[0]}-${pair[1]}" => {
      network = pair[0]
      zone    = pair[1]
      cidr    = cidrsubnet(var.vpc_cidr, 4, 2 * index(local.networks, pair[0]) + pair[1])
    }
  }

  data_addresses    = { for name, host in local.hosts : name => cidrhost(local.subnets["data-${local.zone_of[name]}"].cidr, host) }
  data_networks     = [for zone in [0, 1] : local.subnets["data-${zone}"].cidr]
  control_addresses = { for name, host in local.hosts : name => cidrhost(local.subnets["control-${local.zone_of[name]}"].cidr, host) }

  influxdb_address = local.control_addresses["influxdb-1"]
}

# Nothing is in the group that comes with a VPC, and nothing can be put there: it has no tag of ours, and
# for the same reason a user of infra/account may not close it.
resource "aws_vpc" "this" {
  cidr_block           = var.vpc_cidr
  enable_dns_hostnames = true
  tags                 = { Name = "sc-${var.experiment}" }

  lifecycle {
    precondition { # no validation, which would refuse to destroy a fleet whose time is over
      condition     = timecmp(var.expires, plantimestamp()) > 0 && timecmp(var.expires, timeadd(plantimestamp(), "${var.ttl_hours}h")) <= 0
      error_message = "Expected expires to be in the future, and at most ttl_hours (${var.ttl_hours}) from now, ${plantimestamp()} (got ${var.expires})."
    }
  }
}

resource "aws_subnet" "this" {
  for_each = local.subnets

  vpc_id            = aws_vpc.this.id
  availability_zone = local.zones[each.value.zone]
  cidr_block        = each.value.cidr
  tags              = { Name = "sc-${var.experiment}-${each.key}" }
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "sc-${var.experiment}" }
}

resource "aws_route_table" "egress" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "sc-${var.experiment}-egress" }

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }
}

resource "aws_route_table_association" "egress" {
  for_each = { for name, subnet in local.subnets : name => subnet if subnet.network == "egress" }

  subnet_id      = aws_subnet.this[each.key].id
  route_table_id = aws_route_table.egress.id
}

# The bundle comes by this: no traffic to pay, and it stays when a machine has lost its public address.
resource "aws_vpc_endpoint" "s3" {
  vpc_id          = aws_vpc.this.id
  service_name    = "com.amazonaws.${var.region}.s3"
  route_table_ids = [aws_route_table.egress.id]
  tags            = { Name = "sc-${var.experiment}-s3" }
}
