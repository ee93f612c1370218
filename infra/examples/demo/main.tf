# MediaWiki on MariaDB with noisy neighbours, measured in 8 to 15 minutes: the run makes the fleet and removes it.
#
#   terraform init
#   terraform apply

module "experiment" {
  source = "../../modules/experiment"

  design = "mediawiki-noisy"
}

output "verdict" {
  description = "The SLO: met, missed, undecided; or why nothing may be concluded: disturbed, not valid, interrupted."
  value       = module.experiment.verdict
}

output "p95_ms" {
  description = "95th percentile of the latency of the SLO's arm, here with copies."
  value       = module.experiment.p95_ms
}

output "planned" {
  description = "The cheapest fleet that keeps the SLO, and what it costs in a month; empty and null if the plan is undecided."
  value       = { tiers = module.experiment.planned, usd_per_month = module.experiment.usd_per_month }
}

output "report" {
  description = "Page of the run."
  value       = module.experiment.report
}
