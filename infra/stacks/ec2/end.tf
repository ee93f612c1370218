# The end of the fleet, from outside its machines. Each machine asks the bucket for `expires` and ends itself;
# groups go to none by a schedule of their own (machines.tf); these schedules end every other instance, also a
# standby that is off, one whose clock is wrong, and one that does not answer.

# A later end is a new content: no machine is made anew for it.
resource "aws_s3_object" "expires" {
  bucket  = local.bucket
  key     = "${local.prefix}/expires"
  content = var.expires
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
    role_arn = data.aws_iam_role.end.arn
    input    = jsonencode({ InstanceIds = [aws_instance.this[each.key].id] })
  }
}

# The account's: it may end what carries our tag, and nothing else.
data "aws_iam_role" "end" {
  name = "sparecraft-end"
}
