# Permissions of a machine: its own files and its own interfaces; a load machine also Session Manager; the
# runner stops, starts and reboots machines of its VPC besides, for faults and for standbys. The roles that say so
# are the account's (infra/account/roles.tf), made once: no fleet makes one.

data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}

locals {
  # Refused in the plan where the account has none.
  profiles = {
    for name, box in local.boxes : name =>
    data.aws_iam_instance_profile.account[box.role != "load" ? "machine" : name == local.runner ? "runner" : "load"].name
  }
}

data "aws_iam_instance_profile" "account" {
  for_each = toset(["machine", "load", "runner"])

  name = "sparecraft-${each.key}"
}
