# Which host is which machine, what hosts cannot be, and what lies on them. Nothing is made but keys.

variables {
  experiment = "tst-stack-hosts"
  scheme     = "on-prem"
  tiers = {
    cache = { role = "memcached", nodes = 2, cpus = 0.5, memory_mb = 192, nic_mbps = 20, disk_mbps = 80 }
  }
  arbiters = { cache = {} }
  hosts = [
    { name = "a", address = "10.0.0.1", data_address = "10.1.0.1", cores = 2, usd_per_hour = 0.1 },
    { name = "b", address = "10.0.0.2", data_address = "10.1.0.2", cores = 2 },
    { name = "c", address = "10.0.0.3", data_address = "10.1.0.3", cores = 2 },
    { name = "d", address = "10.0.0.4", data_address = "10.1.0.4", cores = 2 },
    { name = "e", address = "10.0.0.5", data_address = "10.1.0.5", cores = 2 },
  ]
}

run "hosts_are_taken_in_order_and_the_rest_stays_free" {
  command = plan

  assert {
    condition = { for one in output.fleet.machines : one.name => one.address } == {
      arbiter-cache = "10.1.0.1", cache-1 = "10.1.0.2", cache-2 = "10.1.0.3", influxdb-1 = "10.1.0.4"
    }
    error_message = "Expected machines by name on hosts in order."
  }
  assert {
    condition     = one([for one in output.fleet.machines : one.usd_per_hour if one.name == "arbiter-cache"]) == 0.1
    error_message = "Expected the host's price."
  }
  assert {
    condition     = nonsensitive(local.files["influxdb-1"]["/etc/sparecraft/role.env"].content) == "INFLUXDB_HTTP_BIND_ADDRESS=10.0.0.4:8086\nROLE=influxdb\n"
    error_message = "Expected InfluxDB to listen on its control address only."
  }
}

run "every_agent_has_influxdbs_password" {
  assert {
    condition = can(regex("^sparecraft:[0-9a-f]{32}$", output.identity.influxdb_login)) && alltrue([
      for files in values(local.files) : nonsensitive(files["/etc/sparecraft/influxdb-login"]) == { content = nonsensitive(output.identity.influxdb_login), mode = "0600" }
    ])
    error_message = "Expected the user and the password of output identity on each machine, for root only."
  }
}

run "fewer_hosts_than_machines_are_refused" {
  command = plan
  variables {
    hosts = [{ name = "a", address = "10.0.0.1", data_address = "10.1.0.1", cores = 2 }]
  }
  expect_failures = [terraform_data.placed]
}

run "replacement_is_refused" {
  command = plan
  variables {
    scheme = "cloud"
  }
  expect_failures = [terraform_data.placed]
}

run "a_host_is_not_two" {
  command = plan
  variables {
    hosts = [
      { name = "a", address = "10.0.0.1", data_address = "10.1.0.1", cores = 2 },
      { name = "b", address = "10.0.0.1", data_address = "10.1.0.2", cores = 2 },
    ]
  }
  expect_failures = [var.hosts]
}
