# The module as others use it. Plans only; nothing is made. What the fleet's plan holds is tested beside the root
# module that has the same files, infra/stacks/local.

run "several_fleets_by_count" {
  command = plan

  module {
    source = "./fixtures/two"
  }

  assert {
    condition     = output.fleets[*].experiment == ["tst-count-0", "tst-count-1"]
    error_message = "Expected two fleets."
  }
  assert {
    condition     = output.fleets[*].endpoints.influxdb == ["http://198.19.32.5:8086", "http://198.19.48.5:8086"]
    error_message = "Expected each fleet in its own ranges."
  }
}

run "checkout_without_agents_is_refused" {
  command         = plan
  expect_failures = [var.checkout]

  variables {
    experiment   = "tst-count"
    data_cidr    = "198.18.112.0/20"
    control_cidr = "198.19.112.0/20"
    scheme       = "on-prem"
    tiers        = { cache = { role = "memcached", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 } }
    checkout     = "fixtures"
  }
}
