# The machines. What a machine of a tier is, fleet.tf says; here are its interfaces, its launch
# template and what keeps it: a group of one that replaces it, or nothing.

data "aws_ami" "this" {
  most_recent = true
  owners      = var.ami == null ? ["136693071363"] : null # Debian's account

  filter {
    name   = var.ami == null ? "name" : "image-id"
    values = [var.ami == null ? "debian-12-amd64-*" : var.ami]
  }
}

# The image of the first apply: a newer one would replace every machine of a fleet that is up.
resource "terraform_data" "image" {
  input = { id = data.aws_ami.this.id, root_device = data.aws_ami.this.root_device_name }

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  image = var.ami == null ? terraform_data.image.output : { id = data.aws_ami.this.id, root_device = data.aws_ami.this.root_device_name }
}

data "aws_ec2_instance_type" "this" {
  for_each = toset([for box in local.boxes : box.instance_type if box.instance_type != null])

  instance_type = each.key
}

locals {
  platform_machines = {}
  runner            = "load-1"

  # The scheme cloud replaces what serves; what measures stays, and a standby waits.
  boxes = merge(
    {
      for name, machine in local.machines : name => {
        tier          = machine.tier == null ? "" : machine.tier
        role          = machine.role
        folder        = local.roles[machine.role].image_role
        standby       = machine.standby
        instance_type = contains(keys(local.nodes), name) ? machine.instance_type : var.helper_instance_type
        program       = "/opt/sparecraft/bin/nodeagent"
        grouped       = var.scheme == "cloud" && !machine.standby && machine.role != "influxdb"
        files         = local.files[name]
        groups = {
          control = concat(["agents"], contains(["arbiter", "influxdb"], machine.role) ? ["control-${machine.role == "arbiter" ? "arbiters" : "influxdb"}"] : [])
          data    = [machine.role == "influxdb" ? "data-influxdb" : machine.role == "arbiter" ? "arbiter-${machine.tier}" : "tier-${machine.tier}"]
        }
      }
    },
    {
      for name, host in local.load_hosts : name => {
        tier          = ""
        role          = "load"
        folder        = "load"
        standby       = false
        instance_type = var.load_instance_type
        program       = name == local.runner ? null : "/opt/sparecraft/role/start.sh"
        grouped       = false
        files         = local.load_files[name]
        groups = {
          control = name == local.runner ? ["control-load", "runner"] : ["control-load"]
          data    = ["load"]
        }
      }
    },
  )

  # The runner has what `sparecraft run` needs there; every other load machine works for it.
  load_files = {
    for name, host in local.load_hosts : name => merge(
      {
        "/etc/sparecraft/role.env" = {
          content = name == local.runner ? "ROLE=load\n" : "ROLE=load\nLOAD_MASTER=${local.control_addresses[local.runner]}\n"
          mode    = "0644"
        }
      },
      var.session_manager_key == null ? {} : {
        "/etc/sparecraft/session-manager.asc" = { content = file(var.session_manager_key), mode = "0644" }
      },
      name != local.runner ? {} : {
        "/etc/sparecraft/runner.json" = {
          content = jsonencode({ region = var.region, fleet = local.fleet, identity = local.identity })
          mode    = "0600"
        }
      },
    )
  }

  grouped = { for name, box in local.boxes : name => box if box.grouped }
  plain   = { for name, box in local.boxes : name => box if !box.grouped }
  standby = { for name, box in local.boxes : name => box if box.standby }

  interfaces = merge([
    for name, box in local.boxes : {
      for network, groups in box.groups : "${name}/${network}" => {
        machine = name
        network = network
        groups  = groups
        address = network == "data" ? local.data_addresses[name] : local.control_addresses[name]
        subnet  = "${network}-${local.zone_of[name]}"
      }
    }
  ]...)

  tags = {
    for name, box in local.boxes : name => {
      Name                 = "sc-${var.experiment}-${name}"
      "sparecraft:machine" = name
      "sparecraft:tier"    = box.tier
      "sparecraft:role"    = box.role
      "sparecraft:standby" = tostring(box.standby)
      "sparecraft:vpc"     = aws_vpc.this.id # the runner's role goes by it
    }
  }
  # On what AWS makes along with an instance, where the provider's default tags do not come.
  all_tags = {
    for name, tags in local.tags : name => merge(tags, {
      "sparecraft:experiment" = var.experiment
      "sparecraft:expires"    = var.expires
    })
  }
}

resource "aws_network_interface" "this" {
  for_each = local.interfaces

  description     = "sc-${var.experiment}-${each.value.machine}-${each.value.network}"
  subnet_id       = aws_subnet.this[each.value.subnet].id
  private_ips     = [each.value.address]
  security_groups = [for group in each.value.groups : aws_security_group.this[group].id]
  tags            = local.tags[each.value.machine]

  lifecycle {
    ignore_changes = [attachment] # a machine attaches its own, and so does the one that replaces it
  }
}

resource "aws_placement_group" "this" {
  count = var.placement == null ? 0 : 1

  name     = "sc-${var.experiment}"
  strategy = var.placement
}

locals {
  user_data = {
    for name in keys(local.boxes) : name => join("\n", ["#!/usr/bin/env bash", templatefile("${path.module}/templates/user-data.sh.tftpl", {
      machine  = name
      region   = var.region
      files    = "${local.bucket}/${local.prefix}"
      standby  = local.boxes[name].standby
      bundle   = fileexists(local.bundle) ? filesha256(local.bundle) : ""
      settings = local.settings_sha256[name]
      boot     = file("${local.root}/infra/boot/boot.sh")
    })])
  }

  # True if a type can carry the machine; null if a tier names none.
  fits = {
    for name, box in local.boxes : name => box.instance_type == null ? false : (
      data.aws_ec2_instance_type.this[box.instance_type].maximum_network_interfaces >= 3
      && contains(data.aws_ec2_instance_type.this[box.instance_type].supported_architectures, "x86_64")
    )
  }
  misfit = "Expected an instance_type of x86_64 that takes three network interfaces, such as t3.small"

  placed = { for name, box in local.boxes : name => var.placement != null && !contains(["influxdb", "load"], box.role) }
  together = {
    for name, box in local.boxes : name => !local.placed[name] || box.instance_type == null ? true :
    contains(data.aws_ec2_instance_type.this[box.instance_type].supported_placement_strategies, var.placement)
  }
  apart = "Expected an instance_type that can be in a placement group of the strategy ${coalesce(var.placement, "none")}, which T types cannot be in a cluster"

  # A type that saves up CPU time spends what it has and no more, so that the price is the price.
  credits = {
    for name, box in local.boxes : name =>
    box.instance_type != null && try(data.aws_ec2_instance_type.this[box.instance_type].burstable_performance_supported, false) ? ["standard"] : []
  }
}

# A template of a group says what aws_instance.this says of the others.
resource "aws_launch_template" "this" {
  for_each = local.grouped

  name                                 = "sc-${var.experiment}-${each.key}"
  image_id                             = local.image.id
  instance_type                        = each.value.instance_type
  instance_initiated_shutdown_behavior = "terminate"
  tags                                 = local.tags[each.key]

  user_data = base64encode(local.user_data[each.key])

  iam_instance_profile {
    name = local.profiles[each.key]
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = local.image.root_device

    ebs {
      volume_size           = var.disk_gb
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  # The way out; the group says in which subnet.
  network_interfaces {
    device_index                = 0
    associate_public_ip_address = true
    delete_on_termination       = true
    security_groups             = [aws_security_group.this["egress"].id]
  }

  dynamic "credit_specification" {
    for_each = local.credits[each.key]

    content {
      cpu_credits = credit_specification.value
    }
  }

  dynamic "placement" {
    for_each = local.placed[each.key] ? [var.placement] : []

    content {
      group_name = aws_placement_group.this[0].name
    }
  }

  dynamic "instance_market_options" {
    for_each = var.spot ? ["spot"] : []

    content {
      market_type = "spot"
    }
  }

  dynamic "tag_specifications" {
    for_each = ["instance", "volume", "network-interface"]

    content {
      resource_type = tag_specifications.value
      tags          = local.all_tags[each.key]
    }
  }

  lifecycle {
    precondition {
      condition     = local.fits[each.key]
      error_message = "${local.misfit} (got ${coalesce(each.value.instance_type, "none")} for ${each.key})."
    }
    precondition {
      condition     = local.together[each.key]
      error_message = "${local.apart} (got ${coalesce(each.value.instance_type, "none")} for ${each.key})."
    }
  }
}

resource "aws_autoscaling_group" "this" {
  for_each = local.grouped

  name                      = "sc-${var.experiment}-${each.key}"
  min_size                  = 1
  max_size                  = 1
  desired_capacity          = 1
  vpc_zone_identifier       = [aws_subnet.this["egress-${local.zone_of[each.key]}"].id]
  health_check_type         = "EC2"
  health_check_grace_period = 60
  default_instance_warmup   = 0
  force_delete              = true

  launch_template {
    id      = aws_launch_template.this[each.key].id
    version = aws_launch_template.this[each.key].latest_version
  }

  # A group's tags reach its machine; the provider's default tags do not reach a group.
  dynamic "tag" {
    for_each = local.all_tags[each.key]

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  depends_on = [aws_route_table_association.egress, aws_s3_object.machine, aws_s3_object.bundle, aws_s3_object.content, aws_s3_object.expires]

  lifecycle {
    ignore_changes = [min_size, max_size, desired_capacity] # zero when its time is over
  }
}

resource "aws_autoscaling_schedule" "end" {
  for_each = local.grouped

  scheduled_action_name  = "sc-${var.experiment}-${each.key}-end"
  autoscaling_group_name = aws_autoscaling_group.this[each.key].name
  start_time             = var.expires
  min_size               = 0
  max_size               = 0
  desired_capacity       = 0
}

resource "aws_instance" "this" {
  for_each = local.plain

  ami                                  = local.image.id
  instance_type                        = each.value.instance_type
  iam_instance_profile                 = local.profiles[each.key]
  instance_initiated_shutdown_behavior = each.value.standby ? "stop" : "terminate" # a standby stops itself once it is made
  placement_group                      = local.placed[each.key] ? aws_placement_group.this[0].name : null
  tags                                 = local.tags[each.key]

  user_data_base64            = base64encode(local.user_data[each.key])
  user_data_replace_on_change = true

  # The way out. Its interface comes and goes with the instance, and has no tags.
  subnet_id                   = aws_subnet.this["egress-${local.zone_of[each.key]}"].id
  vpc_security_group_ids      = [aws_security_group.this["egress"].id]
  associate_public_ip_address = true

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  dynamic "credit_specification" {
    for_each = local.credits[each.key]

    content {
      cpu_credits = credit_specification.value
    }
  }

  root_block_device {
    volume_size           = var.disk_gb
    volume_type           = "gp3"
    encrypted             = true
    delete_on_termination = true
  }

  depends_on = [aws_route_table_association.egress, aws_s3_object.machine, aws_s3_object.bundle, aws_s3_object.content, aws_s3_object.expires]

  lifecycle {
    # The former is gone after a stop; of the latter a later end would take the earlier one's off, which no user may.
    ignore_changes = [associate_public_ip_address, root_block_device[0].tags]
    precondition {
      condition     = local.fits[each.key]
      error_message = "${local.misfit} (got ${coalesce(each.value.instance_type, "none")} for ${each.key})."
    }
    precondition {
      condition     = each.key != local.runner || var.session_manager_key != null || var.runner_cidr != null
      error_message = "Expected a way in to the runner: session_manager_key, a file with the key that AWS's page \"Verify the signature of SSM Agent\" shows, or runner_cidr (got neither)."
    }
    precondition {
      condition     = local.together[each.key]
      error_message = "${local.apart} (got ${coalesce(each.value.instance_type, "none")} for ${each.key})."
    }
  }
}
