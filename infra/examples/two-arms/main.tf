# Two ways to run one service, on a fleet that stays: two Apache servers with noisy neighbours, asked by turns,
# and both at once. `terraform apply -var round=2` measures the same machines again; destroy removes them.

variable "round" {
  type        = string
  default     = "1"
  description = "Another value measures again."
}

module "experiment" {
  source = "../../modules/experiment"

  design     = "${path.module}/design"
  keep_fleet = true
  triggers   = { round = var.round }
}

output "verdict" {
  description = "The SLO: met, missed or undecided; or why nothing may be concluded: disturbed, not valid, interrupted."
  value       = module.experiment.verdict
}

output "arms" {
  description = "Latencies of each arm in ms, and its share of errors."
  value       = module.experiment.arms
}

output "report" {
  description = "Page of the run."
  value       = module.experiment.report
}
