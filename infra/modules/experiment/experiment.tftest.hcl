# The module with a stand-in for the command: what is applied, what is told, what is refused. No machine is made.

variables {
  design  = "mediawiki-noisy"
  command = "./fixtures/sparecraft"
}

run "outputs_are_what_the_run_found" {
  assert {
    condition     = output.verdict == "met" && output.slo_met && output.p95_ms == 12.5 && output.usd_per_month == 61.5
    error_message = "Expected what the command printed (got ${output.verdict} and ${output.p95_ms})."
  }
  assert {
    condition     = output.planned.web.nodes == 2 && output.planned.web.spares == 1
    error_message = "Expected the planned tiers."
  }
  assert {
    condition     = endswith(output.folder, "results/demo/20260101T000000Z") && output.arms == {}
    error_message = "Expected a folder, and no arms where it is not there."
  }
}

run "without_a_change_nothing_is_run" {
  command = plan

  assert {
    condition     = fleet_run.this.run == "20260101T000000Z" # one that is planned is not known
    error_message = "Expected the run to stay."
  }
}

run "missed_slo_fails_no_apply_by_itself" {
  variables {
    design = "slow"
  }
  assert {
    condition     = output.verdict == "missed" && output.slo_met == false
    error_message = "Expected a missed SLO to be told."
  }
  assert {
    condition     = output.planned == {} && output.usd_per_month == null
    error_message = "Expected an undecided plan to be no plan."
  }
}

run "kept_fleet_is_the_design_s_and_is_measured_as_it_is" {
  command = plan

  variables {
    keep_fleet = true
    checkout   = abspath("../../..")
    design     = "../../examples/two-arms/design"
  }
  assert {
    condition     = module.fleet[0].fleet.experiment == "two-arms" && fleet_run.this.fleet == jsonencode(module.fleet[0].fleet)
    error_message = "Expected the run to take the fleet of this configuration."
  }
}

run "design_that_is_none_is_refused" {
  command         = plan
  expect_failures = [var.design]

  variables {
    design = "../no/design"
  }
}

run "fleet_of_a_design_without_one_is_not_kept" {
  command         = plan
  expect_failures = [var.keep_fleet]

  variables {
    design     = "mediawiki-noizy"
    keep_fleet = true
  }
}
