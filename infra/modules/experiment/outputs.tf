output "verdict" {
  description = "met, missed or undecided (of the SLO), measured (none was asked for), disturbed or not valid (nothing may be concluded)."
  value       = fleet_run.this.verdict
}

output "slo_met" {
  description = "True where the SLO was met; null where that is undecided, or none was asked for."
  value       = fleet_run.this.slo_met
}

output "p95_ms" {
  description = "95th percentile of the latency in ms, of the arm that the SLO is asked of."
  value       = fleet_run.this.p95_ms
}

output "usd_per_month" {
  description = "Price of the planned fleet; null where none was planned."
  value       = fleet_run.this.usd_per_month
}

output "planned" {
  description = "Tier to what the plan says of it: nodes, spares, replicas, instance_type and more. Empty where none was planned."
  value       = try(jsondecode(fleet_run.this.plan).tiers, {})
}

output "arms" {
  description = "Arm to its p50_ms, p95_ms, p99_ms and error_share. Empty where the results were removed, or the kind of experiment compares no arms."
  value = {
    for arm, found in try(jsondecode(file("${fleet_run.this.folder}/result.json")).compare.arms, {}) :
    arm => { for name in ["p50_ms", "p95_ms", "p99_ms", "error_share"] : name => found[name] }
  }
}

output "report" {
  description = "Page of the run, to be opened in a browser."
  value       = fleet_run.this.report
}

output "folder" {
  description = "Folder of the run's files."
  value       = fleet_run.this.folder
}
