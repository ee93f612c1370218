# A plan of the demo's fleet, and values that this platform's own variables refuse; what the fleet spec
# refuses is in experiments/tests/real/design/test_spec_terraform.py. Plans only; nothing is made.

variables {
  experiment    = "tst-spec"
  data_cidr     = "198.18.112.0/20" # of its own: a fleet that is up has others
  control_cidr  = "198.19.112.0/20"
  grafana_image = null # whatever set-up found
  scheme        = "on-prem"
  tiers = {
    web = { role = "mediawiki", calls = ["db"], nodes = 4, standby = 1, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
    db  = { role = "mariadb", nodes = 3, cpus = 0.4, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  }
  arbiters = {
    web = { tokens = 1 }
    db  = { tokens = 12 }
  }
}

run "addresses_follow_tier_and_index" {
  command = plan

  assert {
    condition = { for machine in output.fleet.machines : machine.name => machine.address } == {
      influxdb-1  = "198.18.112.5"
      arbiter-db  = "198.18.112.10"
      arbiter-web = "198.18.112.11"
      db-1        = "198.18.113.11"
      db-2        = "198.18.113.12"
      db-3        = "198.18.113.13"
      web-1       = "198.18.114.11"
      web-2       = "198.18.114.12"
      web-3       = "198.18.114.13"
      web-4       = "198.18.114.14"
      web-5       = "198.18.114.15"
    }
    error_message = "Expected influxdb at 0.5, arbiters at 0.(10+k), node i of tier k at (k+1).(10+i)."
  }
  assert {
    condition = alltrue([
      for name, machine in fleet_machine.this :
      split(".", machine.data.address)[2] == split(".", machine.control.address)[2] &&
      split(".", machine.data.address)[3] == split(".", machine.control.address)[3]
    ])
    error_message = "Expected the same host part in both networks."
  }
  assert {
    condition     = [for machine in output.fleet.machines : machine.name if machine.standby] == ["web-5"] && fleet_machine.this["web-5"].standby && !fleet_machine.this["web-5"].running
    error_message = "Expected the last machine of web, and no other, to be a standby that does not run."
  }
  assert {
    condition     = output.fleet.endpoints.entries == [{ tier = "web", protocol = "http", urls = ["http://198.18.112.11/"] }] && output.fleet.endpoints.influxdb == "http://198.19.112.5:8086" && output.fleet.endpoints.grafana == null
    error_message = "Expected the entry at the arbiter of web and InfluxDB on the control network, without Grafana."
  }
  assert {
    condition     = output.published.entries == [{ tier = "web", url = "http://127.0.0.1:18080/" }] && fleet_machine.this["arbiter-web"].published_ports["80"] == 18080
    error_message = "Expected the entry to be published on 127.0.0.1:18080."
  }
  assert {
    condition     = length(fleet_machine.this["arbiter-db"].published_ports == null ? {} : fleet_machine.this["arbiter-db"].published_ports) == 0
    error_message = "Expected the database's arbiter not to be published."
  }
  assert {
    condition     = output.fleet.machines[0].name == "arbiter-db" && output.fleet.machines[0].tier == "db" && output.fleet.machines[0].role == "arbiter" && output.fleet.machines[0].agent_url == "https://198.19.112.10:7443"
    error_message = "Expected an arbiter's tier to be the one that it serves, and its agent on the control network."
  }
  assert {
    condition     = keys(fleet_image.role) == ["arbiter", "influxdb", "mariadb", "mediawiki"]
    error_message = "Expected an image for each role in use and no other."
  }
}

run "files_say_who_is_where" {
  command = plan

  assert {
    condition     = nonsensitive(fleet_machine.this["web-1"].files["/etc/sparecraft/role.env"].content) == "DB_HOST=198.18.112.10\nDB_NAME=wiki\nDB_PASSWORD=wiki-read\nDB_PORT=3306\nDB_USER=wiki\nROLE=mediawiki\nVARIANT=debian\n"
    error_message = "Expected the web tier to call the arbiter of its backend."
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["arbiter-db"].files["/etc/sparecraft/arbiter.toml"].content) == <<-EOT
      protocol = "mysql"
      listen = "198.18.112.10:3306"
      admin = "198.19.112.10:9300"
      tier = "db"
      replicas = 1
      tokens = 12
      connect_timeout_ms = 1000
      request_timeout_ms = 6000
      server_cores = 0.4
      avoid_collisions = true

      [admin_tls]
      ca = "/etc/sparecraft/tls/ca.pem"
      cert = "/etc/sparecraft/tls/cert.pem"
      key = "/run/sparecraft/arbiter/key.pem"

      [[servers]]
      name = "db-1"
      address = "198.18.113.11:3306"

      [[servers]]
      name = "db-2"
      address = "198.18.113.12:3306"

      [[servers]]
      name = "db-3"
      address = "198.18.113.13:3306"

      [mysql]
      user = "wiki"
      password = "wiki-read"
      database = "wiki"
    EOT
    error_message = "Expected the arbiter's file to name its tier's servers (got:\n${nonsensitive(fleet_machine.this["arbiter-db"].files["/etc/sparecraft/arbiter.toml"].content)})"
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["influxdb-1"].files["/etc/sparecraft/agent.toml"].content) == <<-EOT
      experiment = "tst-spec"
      machine = "influxdb-1"
      tier = ""
      role = "influxdb"
      listen = "198.19.112.5:7443"
      data_address = "198.18.112.5"
      data_networks = ["198.18.112.0/20"]
      nic_mbps = 1000
      influxdb = "http://198.19.112.5:8086"
      influxdb_login = "/etc/sparecraft/influxdb-login"

      [tls]
      ca = "/etc/sparecraft/tls/ca.pem"
      cert = "/etc/sparecraft/tls/cert.pem"
      key = "/etc/sparecraft/tls/key.pem"
    EOT
    error_message = "Expected the agent's file to say who it is."
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["web-1"].files["/etc/sparecraft/tls/key.pem"].mode) == "0600"
    error_message = "Expected the key to be readable by root only."
  }
  assert {
    condition     = alltrue([for machine in fleet_machine.this : nonsensitive(machine.files["/etc/sparecraft/influxdb-login"].mode) == "0600"])
    error_message = "Expected InfluxDB's password to be readable by root only."
  }
}

run "grafana_comes_with_its_image" {
  command = plan

  variables {
    grafana_image = "grafana/grafana:11.6.0"
  }
  assert {
    condition     = fleet_machine.grafana[0].environment.INFLUXDB_URL == "http://198.19.112.5:8086" && output.fleet.endpoints.grafana == "http://198.19.112.6:3000" && output.published.grafana == "http://127.0.0.1:13000"
    error_message = "Expected Grafana at host 6, reading the fleet's InfluxDB."
  }
  assert {
    condition     = toset(regexall("[$]{(\\w+)}", file("${local.root}/grafana/container/etc/grafana/provisioning/datasources/sparecraft.yaml"))[*][0]) == toset(keys(nonsensitive(fleet_machine.grafana[0].environment)))
    error_message = "Expected Grafana to be given all that its datasource names."
  }
  assert {
    condition     = contains(keys(nonsensitive(fleet_machine.grafana[0].files)), "/etc/grafana/dashboards/sparecraft-experiment.json") && contains(keys(nonsensitive(fleet_machine.grafana[0].files)), "/etc/grafana/provisioning/datasources/sparecraft.yaml")
    error_message = "Expected the generated dashboard and the provisioning in Grafana's machine."
  }
  assert {
    condition     = !contains([for machine in output.fleet.machines : machine.role], "grafana")
    error_message = "Expected Grafana, which has no node agent, not to be in the inventory's machines."
  }
}

run "network_outside_the_benchmark_range_is_refused" {
  command         = plan
  expect_failures = [var.data_cidr, var.control_cidr]
  variables {
    data_cidr    = "10.0.0.0/16"
    control_cidr = "198.19.112.1/16"
  }
}

run "one_port_for_two_services_is_refused" {
  command         = plan
  expect_failures = [var.influxdb_port]
  variables {
    influxdb_port = 18080
  }
}
