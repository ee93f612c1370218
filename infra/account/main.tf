# Resources that an account has once, before its first fleet; its administrator applies them, never sparecraft.
#
#     terraform -chdir=infra/account init && terraform -chdir=infra/account apply -var alarm_email=me@example.org

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "6.47.0"
    }
  }
}

variable "region" {
  type        = string
  default     = "eu-west-1"
  description = "Region of the states of fleets."
}

variable "usd_per_month" {
  type        = number
  default     = 50
  description = "Monthly cost of the account at which the alarm is sent [USD]."

  validation {
    condition     = var.usd_per_month > 0
    error_message = "Expected usd_per_month above 0 (got ${var.usd_per_month})."
  }
}

variable "alarm_email" {
  type        = string
  default     = null
  description = "Address for the alarm when 50, 80 and 100 % of it are spent, or 100 % are to be expected; null for no alarm."

  validation {
    condition     = var.alarm_email == null ? true : can(regex("^[^@ ]+@[^@ ]+$", var.alarm_email))
    error_message = "Expected alarm_email to be an e-mail address (got \"${coalesce(var.alarm_email, "none")}\")."
  }
}

provider "aws" {
  region = var.region
}

resource "aws_iam_policy" "user" {
  for_each = toset(["look", "make", "change", "services"])

  name        = "sparecraft-user-${each.key}"
  description = "Permissions of users who make fleets, one part of four"
  policy      = file("${path.module}/user-${each.key}.json")
}

resource "aws_iam_group" "users" {
  name = "sparecraft-users"
}

resource "aws_iam_group_policy_attachment" "users" {
  for_each = merge(
    { for name, policy in aws_iam_policy.user : name => policy.arn },
    { states = aws_iam_policy.states.arn },
  )

  group      = aws_iam_group.users.name
  policy_arn = each.value
}

# AWS counts hours late: this tells of fleets that were forgotten, their own time to live ends them.
resource "aws_budgets_budget" "month" {
  count = var.alarm_email == null ? 0 : 1

  name         = "sparecraft"
  budget_type  = "COST"
  limit_amount = tostring(var.usd_per_month)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  dynamic "notification" {
    for_each = { "50" = "ACTUAL", "80" = "ACTUAL", "100" = "ACTUAL", "100.0" = "FORECASTED" }

    content {
      comparison_operator        = "GREATER_THAN"
      threshold                  = tonumber(notification.key)
      threshold_type             = "PERCENTAGE"
      notification_type          = notification.value
      subscriber_email_addresses = [var.alarm_email]
    }
  }
}

output "users" {
  description = "The group whose members may make fleets."
  value       = aws_iam_group.users.name
}
