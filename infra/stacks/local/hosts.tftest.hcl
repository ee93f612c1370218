# Plans only, and no engine: which host each machine is on, and which pools cannot be.

mock_provider "fleet" {}

variables {
  experiment    = "tst-pool"
  grafana_image = null # whatever set-up found
  scheme        = "on-prem"
  tiers = {
    web   = { role = "mediawiki", calls = ["db"], nodes = 3, standby = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
    db    = { role = "mariadb", nodes = 2, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
    cache = { role = "memcached", nodes = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
  }
  arbiters = { web = {}, db = {} }
  hosts = [
    { name = "a1", address = "unix:///var/run/docker.sock", domain = "rack-a", underlay = "192.0.2.1" },
    { name = "a2", address = "ssh://b", domain = "rack-a", underlay = "192.0.2.2" },
    { name = "b1", address = "ssh://c", domain = "rack-b", underlay = "192.0.2.3" },
  ]
}

run "domains_take_turns_and_so_do_their_hosts" {
  command = plan

  assert {
    condition = output.hosts == {
      arbiter-db = "b1", arbiter-web = "a2", influxdb-1 = "a1"
      cache-1    = "a1", db-1 = "b1", db-2 = "a2"
      web-1      = "a2", web-2 = "b1", web-3 = "a1", web-4 = "b1"
    }
    error_message = "Expected racks in turn, each tier from one further (got ${jsonencode(output.hosts)})."
  }
  assert {
    condition     = { for name, machine in fleet_machine.this : name => machine.host } == output.hosts
    error_message = "Expected each machine on its host."
  }
  assert {
    condition     = fleet_image.role["mariadb"].hosts == tolist(["a1", "a2", "b1"]) && fleet_image.role["memcached"].hosts == tolist(["a1"])
    error_message = "Expected each image on the first host, which builds, and where its machines are."
  }
}

run "each_host_has_an_end_of_both_networks" {
  command = plan

  assert {
    condition = { for name, end in fleet_vxlan.this : name => join(" ", concat([end.host, end.address], sort(end.peers))) } == {
      data-a1    = "a1 192.0.2.1 192.0.2.2 192.0.2.3", data-a2 = "a2 192.0.2.2 192.0.2.1 192.0.2.3", data-b1 = "b1 192.0.2.3 192.0.2.1 192.0.2.2"
      control-a1 = "a1 192.0.2.1 192.0.2.2 192.0.2.3", control-a2 = "a2 192.0.2.2 192.0.2.1 192.0.2.3", control-b1 = "b1 192.0.2.3 192.0.2.1 192.0.2.2"
    }
    error_message = "Expected every host to have every other as a peer."
  }
  assert {
    condition     = length(distinct([for name, end in fleet_vxlan.this : end.vni if startswith(name, "data-")])) == 1 && length(distinct(values(fleet_vxlan.this)[*].vni)) == 2
    error_message = "Expected one number for each of the two networks."
  }
  assert {
    condition     = { for host, one in fleet_network.data : host => one.gateway } == { a1 = "198.18.0.1", a2 = "198.18.0.101", b1 = "198.18.0.102" } && alltrue([for one in values(fleet_network.control) : one.mtu == 1450])
    error_message = "Expected an address of its own for each host, and packets that fit into the underlay's."
  }
}

run "more_nodes_move_no_machine" {
  command = plan
  variables {
    tiers = {
      web   = { role = "mediawiki", calls = ["db"], nodes = 4, standby = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
      db    = { role = "mariadb", nodes = 5, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
      cache = { role = "memcached", nodes = 1, cpus = 0.5, memory_mb = 256, nic_mbps = 200, disk_mbps = 80 }
    }
  }

  assert {
    condition     = [output.hosts["db-1"], output.hosts["db-2"], output.hosts["web-1"], output.hosts["web-3"], output.hosts["arbiter-web"]] == ["b1", "a2", "a2", "a1", "a2"]
    error_message = "Expected what was there to stay (got ${jsonencode(output.hosts)})."
  }
}

run "one_engine_needs_no_ends" {
  command = plan
  variables {
    hosts = []
  }

  assert {
    condition     = length(fleet_vxlan.this) == 0 && length(fleet_image.link) == 0 && toset(values(output.hosts)) == toset(["local"]) && fleet_network.data["local"].mtu == null
    error_message = "Expected one bridge for each network and nothing beside it."
  }
}

run "a_host_is_not_two" {
  command = plan
  variables {
    hosts = [
      { name = "a", address = "ssh://a", underlay = "192.0.2.1" },
      { name = "a", address = "ssh://b", underlay = "192.0.2.2" },
    ]
  }
  expect_failures = [var.hosts]
}

run "several_hosts_need_an_underlay_each" {
  command = plan
  variables {
    hosts = [
      { name = "a", address = "ssh://a", underlay = "192.0.2.1" },
      { name = "b", address = "ssh://b" },
    ]
  }
  expect_failures = [var.hosts]
}
