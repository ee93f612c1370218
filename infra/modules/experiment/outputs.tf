locals {
  plan = try(jsondecode(fleet_run.this.plan), null)
}

output "verdict" {
  description = "Verdict: met, missed or undecided (of the SLO), measured (without an SLO), disturbed or not valid (without a conclusion)."
  value       = fleet_run.this.verdict
}

output "slo_met" {
  description = "True if the SLO is met; null if it is undecided, or without an SLO."
  value       = fleet_run.this.slo_met
}

output "p95_ms" {
  description = "95th percentile of the latency of the SLO's arm [ms]."
  value       = fleet_run.this.p95_ms
}

output "usd_per_month" {
  description = "Price of the planned fleet; null without a plan, or if the plan is undecided."
  value       = fleet_run.this.usd_per_month
}

output "planned" {
  description = "Tier to its part of the plan: nodes, spares, replicas, instance_type and more. Empty without a plan, or if the plan is undecided."
  value       = { for name, tier in try(local.plan.tiers, {}) : name => tier if try(local.plan.feasible == true, false) }
}

output "arms" {
  description = "Arm to its p50_ms, p95_ms, p99_ms and error_share. Empty if the results were removed, or the kind of experiment has no arms."
  value = {
    for arm, found in try(jsondecode(file("${fleet_run.this.folder}/result.json")).compare.arms, {}) :
    arm => { for name in ["p50_ms", "p95_ms", "p99_ms", "error_share"] : name => found[name] }
  }
}

output "report" {
  description = "Report of the run, for a browser."
  value       = fleet_run.this.report
}

output "folder" {
  description = "Folder of the run's files."
  value       = fleet_run.this.folder
}
