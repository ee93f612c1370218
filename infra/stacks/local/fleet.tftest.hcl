# A small fleet for real: images are built, machines started, changed and removed. Own ranges and
# ports, so that it only collides with a fleet that has the whole of 198.18.0.0/15.

variables {
  experiment    = "tst-stack"
  grafana_image = null # whatever set-up found
  scheme        = "on-prem"
  roles_dirs    = ["infra/roles", "infra/stacks/shared/fixtures/roles"]
  tiers = {
    web = { role = "mediawiki", calls = ["db"], nodes = 1, standby = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
    db  = { role = "mariadb", nodes = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
    own = { role = "ring", image = "sparecraft/base:bookworm", nodes = 1, cpus = 0.5, memory_mb = 64, nic_mbps = 200, disk_mbps = 80 }
  }
  arbiters = {
    web = { tokens = 1 }
    db  = { tokens = 12 }
  }
  data_cidr     = "198.18.224.0/20"
  control_cidr  = "198.19.224.0/20"
  entry_port    = 28480
  influxdb_port = 28486
}

run "fleet_comes_up" {
  assert {
    condition     = { for name, machine in fleet_machine.this : name => machine.running } == { arbiter-db = true, arbiter-web = true, db-1 = true, influxdb-1 = true, own-1 = true, web-1 = true, web-2 = false }
    error_message = "Expected every machine but the standby web-2 to run."
  }
  assert {
    condition     = startswith(output.identity.client_certificate_pem, "-----BEGIN CERTIFICATE-----")
    error_message = "Expected a client certificate for the agents' API."
  }
}

# A planned replacement has no known id, and its condition then fails as unknown.
run "second_plan_replaces_nothing" {
  command = plan

  assert {
    condition     = alltrue([for machine in fleet_machine.this : machine.id != null]) && alltrue([for image in fleet_image.role : image.id != null])
    error_message = "Expected every machine and image to stay."
  }
}

# The first machines of both tiers stay (their ids are known), the database's arbiter is made anew.
run "another_database_leaves_the_rest_alone" {
  command = plan

  variables {
    tiers = {
      web = { role = "mediawiki", calls = ["db"], nodes = 1, standby = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
      db  = { role = "mariadb", nodes = 2, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
      own = { role = "ring", image = "sparecraft/base:bookworm", nodes = 1, cpus = 0.5, memory_mb = 64, nic_mbps = 200, disk_mbps = 80 }
    }
  }

  assert {
    condition = alltrue([
      for name in ["arbiter-web", "db-1", "influxdb-1", "own-1", "web-1", "web-2"] : fleet_machine.this[name].id != null
    ])
    error_message = "Expected machines that do not know the database's machines to stay."
  }
}
