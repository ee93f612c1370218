# The roles that machines of all fleets have, made once: a user passes them and makes none. What a machine reaches
# is below its own VPC's id: files in the bucket, interfaces, and for the runner machines.

locals {
  machine_policies = {
    machine = ["machine"]
    load    = ["machine", "load"]
    runner  = ["machine", "load", "runner"]
  }
}

resource "aws_iam_policy" "role" {
  for_each = toset(["machine", "load", "runner", "end", "sweep"]) # the last for whatever calls sweep.py

  name        = "sparecraft-role-${each.key}"
  description = "Permissions of a machine, and of the end of one"
  policy      = file("${path.module}/role-${each.key}.json")
}

resource "aws_iam_role" "machine" {
  for_each = local.machine_policies

  name = "sparecraft-${each.key}"
  path = "/sparecraft/"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy_attachment" "machine" {
  for_each = merge([
    for role, policies in local.machine_policies : { for policy in policies : "${role}/${policy}" => { role = role, policy = policy } }
  ]...)

  role       = aws_iam_role.machine[each.value.role].name
  policy_arn = aws_iam_policy.role[each.value.policy].arn
}

resource "aws_iam_instance_profile" "machine" {
  for_each = local.machine_policies

  name = "sparecraft-${each.key}"
  path = "/sparecraft/"
  role = aws_iam_role.machine[each.key].name
}

# For schedules that end what outlives its fleet.
resource "aws_iam_role" "end" {
  name = "sparecraft-end"
  path = "/sparecraft/"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "scheduler.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.this.account_id } }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "end" {
  role       = aws_iam_role.end.name
  policy_arn = aws_iam_policy.role["end"].arn
}
