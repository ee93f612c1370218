# MediaWiki on MariaDB with noisy neighbours, measured in seven minutes: the run makes the fleet and removes it.
#
#   terraform init
#   terraform apply

module "experiment" {
  source = "../../modules/experiment"

  design = "mediawiki-noisy"
}

output "verdict" {
  description = "The SLO: met, missed, undecided or interrupted."
  value       = module.experiment.verdict
}

output "p95_ms" {
  description = "95th percentile of the latency of the arm with replicas."
  value       = module.experiment.p95_ms
}

output "planned" {
  description = "The cheapest fleet that keeps the SLO, and what it costs in a month."
  value       = { tiers = module.experiment.planned, usd_per_month = module.experiment.usd_per_month }
}

output "report" {
  description = "Page of the run."
  value       = module.experiment.report
}
