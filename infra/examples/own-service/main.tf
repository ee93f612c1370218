# A service of your own. `sparecraft init shop` makes the folder shop with a small one to change.
#
#   sparecraft init shop
#   terraform init
#   terraform apply
#
# Each apply after a change of the folder measures again; without one it changes nothing.

module "experiment" {
  source = "../../modules/experiment"

  design      = "shop"
  fail_on_slo = true # a pipeline stops here where the service got too slow
}

output "verdict" {
  description = "The SLO: met, missed, undecided; or why nothing may be concluded: disturbed, not valid, interrupted."
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
