# The end of the fleet, from outside its machines. Each machine asks the bucket for `expires` and ends itself;
# groups go to none by a schedule of their own (machines.tf); these schedules end every other instance, also a
# standby that is off, one whose clock is wrong, and one that does not answer.

locals {
  expires_key = "expires"
}

# A later end is a new content: no machine is made anew for it.
resource "aws_s3_object" "expires" {
  bucket  = aws_s3_bucket.bundle.id
  key     = local.expires_key
  content = var.expires

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.bundle]
}

resource "aws_scheduler_schedule_group" "this" {
  name = "sc-${var.experiment}"
}

resource "aws_scheduler_schedule" "end" {
  for_each = local.plain

  name                         = "sc-${var.experiment}-${each.key}"
  group_name                   = aws_scheduler_schedule_group.this.name
  description                  = "The time to live of ${each.key} is over"
  schedule_expression          = "at(${trimsuffix(var.expires, "Z")})" # UTC
  schedule_expression_timezone = "UTC"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = "arn:${data.aws_partition.this.partition}:scheduler:::aws-sdk:ec2:terminateInstances"
    role_arn = aws_iam_role.end.arn
    input    = jsonencode({ InstanceIds = [aws_instance.this[each.key].id] })
  }

  depends_on = [aws_iam_role_policy.end]
}

resource "aws_iam_role" "end" {
  name                 = "sc-${var.experiment}-end"
  path                 = local.role_path
  permissions_boundary = local.boundary_arn
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

resource "aws_iam_role_policy" "end" {
  name = "own"
  role = aws_iam_role.end.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "End"
      Effect    = "Allow"
      Action    = ["ec2:TerminateInstances"]
      Resource  = ["${local.arn_ec2}:instance/*"]
      Condition = { StringEquals = local.own_experiment }
    }]
  })
}
