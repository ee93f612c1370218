# What a machine may ask of AWS: its own files and its own interfaces; a load machine also Session Manager.
# The runner stops, starts and reboots machines of this experiment besides, for faults and for standbys. No
# role may do more than infra/account/boundary.json says, whoever writes its policy.

data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}

locals {
  role_path = "/sparecraft/" # a user of infra/account/ may pass no role outside it

  arn_ec2 = "arn:${data.aws_partition.this.partition}:ec2:${var.region}:${data.aws_caller_identity.this.account_id}"
  arn_asg = "arn:${data.aws_partition.this.partition}:autoscaling:${var.region}:${data.aws_caller_identity.this.account_id}"
}

# Refused in the plan where the account has none.
data "aws_iam_policy" "boundary" {
  count = var.permissions_boundary == null ? 0 : 1

  arn = "arn:${data.aws_partition.this.partition}:iam::${data.aws_caller_identity.this.account_id}:policy/${var.permissions_boundary}"
}

locals {
  boundary_arn   = var.permissions_boundary == null ? null : data.aws_iam_policy.boundary[0].arn
  own_experiment = { "aws:ResourceTag/sparecraft:experiment" = var.experiment }

  may = {
    for name, box in local.boxes : name => concat(
      [{
        Sid    = "OwnFiles"
        Effect = "Allow"
        Action = ["s3:GetObject"]
        Resource = [
          for key in ["sparecraft.tar.gz", local.expires_key, "content/${box.folder}.tar.gz", "machines/${name}.json"] :
          "${aws_s3_bucket.bundle.arn}/${key}"
        ]
        Condition = {}
      }],
      [{
        Sid       = "OwnInterfaces"
        Effect    = "Allow"
        Action    = ["ec2:AttachNetworkInterface"]
        Resource  = [for network in ["control", "data"] : aws_network_interface.this["${name}/${network}"].arn]
        Condition = {}
        }, {
        Sid       = "ToItself"
        Effect    = "Allow"
        Action    = ["ec2:AttachNetworkInterface"]
        Resource  = ["${local.arn_ec2}:instance/*"]
        Condition = { StringEquals = merge(local.own_experiment, { "aws:ResourceTag/sparecraft:machine" = name }) }
      }],
      # What the agent needs for shells; AmazonSSMManagedInstanceCore would read the account's parameters, too.
      box.role != "load" ? [] : [{
        Sid    = "SessionManager"
        Effect = "Allow"
        Action = [
          "ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel",
          "ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel",
        ]
        Resource  = ["*"]
        Condition = {}
      }],
      name != local.runner ? [] : [{
        Sid       = "Look" # EC2 knows no narrower resource for these
        Effect    = "Allow"
        Action    = ["ec2:DescribeInstances", "ec2:DescribeInstanceStatus"]
        Resource  = ["*"]
        Condition = {}
        }, {
        Sid    = "FaultsAndStandbys"
        Effect = "Allow"
        Action = [
          "ec2:StartInstances", "ec2:StopInstances", "ec2:RebootInstances", "ec2:GetConsoleOutput",
          "autoscaling:TerminateInstanceInAutoScalingGroup",
        ]
        Resource  = ["${local.arn_ec2}:instance/*", "${local.arn_asg}:autoScalingGroup:*:autoScalingGroupName/sc-${var.experiment}-*"]
        Condition = { StringEquals = local.own_experiment }
      }],
    )
  }
}

resource "aws_iam_role" "machine" {
  for_each = toset(keys(local.boxes))

  name                 = "sc-${var.experiment}-${each.key}"
  path                 = local.role_path
  permissions_boundary = local.boundary_arn
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }]
  })
  tags = local.tags[each.key]
}

resource "aws_iam_role_policy" "machine" {
  for_each = toset(keys(local.boxes))

  name   = "own"
  role   = aws_iam_role.machine[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.may[each.key] })
}

resource "aws_iam_instance_profile" "machine" {
  for_each = toset(keys(local.boxes))

  name = "sc-${var.experiment}-${each.key}"
  path = local.role_path
  role = aws_iam_role.machine[each.key].name
  tags = local.tags[each.key]
}
