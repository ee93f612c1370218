# Roles from a folder of their own, as a design brings them, and fleets that only these can make: no
# arbiter, several entries, places and peers. Plans only; nothing is made.

variables {
  experiment    = "tst-roles"
  data_cidr     = "198.18.112.0/20" # of its own: a fleet that is up has others
  control_cidr  = "198.19.112.0/20"
  grafana_image = null # whatever set-up found
  scheme        = "on-prem"
  roles_dirs    = ["infra/roles", "infra/stacks/shared/fixtures/roles"]
  tiers = {
    shop  = { role = "front", calls = ["store", "cache"], nodes = 2, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 }
    store = { role = "ring", nodes = 2, standby = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 }
    cache = { role = "memcached", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 }
  }
  arbiters = {
    shop  = {}
    cache = { tokens = 4 }
  }
}

run "machines_know_their_place_and_their_peers" {
  command = plan

  assert {
    condition = { for machine in output.fleet.machines : machine.name => machine.place } == {
      arbiter-cache = null, arbiter-shop = null, influxdb-1 = null
      cache-1       = "first", shop-1 = "first", shop-2 = "others", store-1 = "first", store-2 = "others", store-3 = "others"
    }
    error_message = "Expected the first machine of each tier to be first, helpers to have no place."
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["store-1"].files["/etc/sparecraft/role.env"].content) == <<-EOT
      LEAD=yes
      NODE='store-1 1/2 of store'
      PEERS=store-1=198.18.115.11,store-2=198.18.115.12,store-3=198.18.115.13
      ROLE=ring
      SYNC=one
    EOT
    error_message = "Expected the leader's settings (got:\n${nonsensitive(fleet_machine.this["store-1"].files["/etc/sparecraft/role.env"].content)})"
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["store-3"].files["/etc/sparecraft/role.env"].content) == <<-EOT
      JOIN=198.18.115.11
      NODE='store-3 3/2 of store'
      PEERS=store-1=198.18.115.11,store-2=198.18.115.12,store-3=198.18.115.13
      ROLE=ring
      SYNC=one
    EOT
    error_message = "Expected a follower's settings (got:\n${nonsensitive(fleet_machine.this["store-3"].files["/etc/sparecraft/role.env"].content)})"
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["store-2"].files["/etc/ring.conf"].content) == "listen 198.18.115.12 { sync one; } {unknown}\n"
    error_message = "Expected the role's file with what is known in braces filled in (got ${nonsensitive(fleet_machine.this["store-2"].files["/etc/ring.conf"].content)})"
  }
}

run "callers_reach_machines_where_no_arbiter_is" {
  command = plan

  assert {
    condition     = nonsensitive(fleet_machine.this["shop-2"].files["/etc/sparecraft/role.env"].content) == <<-EOT
      MAIN=198.18.115.11:7000
      OTHER=198.18.112.10
      ROLE=front
      STORE=reader@198.18.115.11:7000,198.18.115.12:7000/ring
    EOT
    error_message = "Expected the store's running machines and the cache's arbiter (got:\n${nonsensitive(fleet_machine.this["shop-2"].files["/etc/sparecraft/role.env"].content)})"
  }
  assert {
    condition     = keys(fleet_image.role) == ["arbiter", "influxdb", "mediawiki", "memcached", "ring"]
    error_message = "Expected a role of another's image to have no image of its own."
  }
  assert {
    condition     = fleet_image.role["ring"].dockerfile == "stock.Dockerfile" && fleet_image.role["ring"].stock_image == "ring:1"
    error_message = "Expected a stock image to get the agent by the stock Dockerfile."
  }
}

run "the_primary_of_a_tier_that_another_promotes_is_detected" {
  command = plan

  variables {
    tiers = {
      alone     = { role = "redis", nodes = 2, cpus = 0.3, memory_mb = 256, nic_mbps = 100, disk_mbps = 80 }
      store     = { role = "redis", calls = ["sentinels"], nodes = 2, cpus = 0.3, memory_mb = 256, nic_mbps = 100, disk_mbps = 80 }
      sentinels = { role = "redis-sentinel", nodes = 3, cpus = 0.1, memory_mb = 64, nic_mbps = 100, disk_mbps = 80 }
    }
    entries  = ["alone", "store"]
    arbiters = { alone = {}, store = {} }
  }

  assert {
    condition = {
      for tier in ["alone", "store"] :
      tier => length(regexall("\\[redis\\]\nprimary = \"detected\"\n", nonsensitive(fleet_machine.this["arbiter-${tier}"].files["/etc/sparecraft/arbiter.toml"].content)))
    } == { alone = 0, store = 1 }
    error_message = "Expected the arbiter of the promoted tier, and no other, to detect the primary."
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["store-2"].files["/etc/sparecraft/role.env"].content) == <<-EOT
      ADDRESS=198.18.115.12
      CALL_FAULTS=off
      FIRST=198.18.115.11
      MAXMEMORY_POLICY=noeviction
      PEERS=store-1=198.18.115.11,store-2=198.18.115.12
      REDIS_PRIMARY=198.18.115.11
      ROLE=redis
      SENTINELS=198.18.114.11:26379,198.18.114.12:26379,198.18.114.13:26379
      STORE_FAULTS=off
      TIER=store
      VARIANT=debian
    EOT
    error_message = "Expected a machine to know sentinels and peers (got:\n${nonsensitive(fleet_machine.this["store-2"].files["/etc/sparecraft/role.env"].content)})"
  }
}

run "the_primary_of_a_tier_whose_own_machines_promote_is_detected" {
  command = plan

  variables {
    tiers = {
      db   = { role = "mariadb-galera", nodes = 3, standby = 1, cpus = 0.3, memory_mb = 256, nic_mbps = 100, disk_mbps = 80 }
      wiki = { role = "mariadb", nodes = 2, cpus = 0.3, memory_mb = 256, nic_mbps = 100, disk_mbps = 80 }
    }
    entries  = ["db", "wiki"]
    arbiters = { db = {}, wiki = {} }
  }

  assert {
    condition = {
      for tier in ["db", "wiki"] :
      tier => length(regexall("database = \"[a-z]+\"\nprimary = \"detected\"\n", nonsensitive(fleet_machine.this["arbiter-${tier}"].files["/etc/sparecraft/arbiter.toml"].content)))
    } == { db = 1, wiki = 0 }
    error_message = "Expected the arbiter of the tier that promotes, and no other, to detect the primary."
  }
  assert {
    condition     = nonsensitive(fleet_machine.this["db-4"].files["/etc/sparecraft/role.env"].content) == <<-EOT
      ADDRESS=198.18.113.14
      NAME=db-4
      NODES=3
      PEERS=db-1=198.18.113.11,db-2=198.18.113.12,db-3=198.18.113.13,db-4=198.18.113.14
      ROLE=mariadb-galera
      TIER=db
    EOT
    error_message = "Expected a standby to know its peers (got:\n${nonsensitive(fleet_machine.this["db-4"].files["/etc/sparecraft/role.env"].content)})"
  }
}

run "a_design_s_own_role_does_not_take_the_tag_of_ours" {
  command = plan

  variables {
    roles_dirs = ["infra/roles", "${abspath("../shared")}/fixtures/roles"]
  }
  assert {
    condition     = fleet_image.role["ring"].tag == "sparecraft/tst-roles-ring:local" && fleet_image.role["memcached"].tag == "sparecraft/memcached:local"
    error_message = "Expected the experiment in the tag of a role from elsewhere."
  }
}

run "a_tier_s_own_stock_image_is_one_of_its_own" {
  command = plan

  variables {
    tiers = {
      old = { role = "ring", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 }
      new = { role = "ring", image = "ring:2", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 }
    }
    arbiters = {}
  }
  assert {
    condition     = { for key, image in fleet_image.role : key => image.stock_image if image.stock_image != null } == { ring = "ring:1", ring-new = "ring:2" }
    error_message = "Expected each tier's stock image."
  }
  assert {
    condition = output.fleet.endpoints.entries == [
      { tier = "new", protocol = "redis", urls = ["redis://198.18.113.11:7000/"] },
      { tier = "old", protocol = "redis", urls = ["redis://198.18.114.11:7000/"] },
    ]
    error_message = "Expected every tier that none calls to be an entry, by name."
  }
}

run "a_stock_image_may_be_built_first_and_told_what_to_run" {
  command = plan

  variables {
    tiers    = { app = { role = "packed", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 } }
    arbiters = {}
  }
  assert {
    condition     = fleet_image.context["packed"].target == "app" && fleet_image.context["packed"].build_args == tomap({ VERSION = "3" })
    error_message = "Expected the role's context to be built as its role.json says."
  }
  assert {
    condition = fleet_image.role["packed"].build_args == tomap({
      ROLE_PORT = "8000", ROLE_RESTART = "", STOCK_COMMAND = "'serve' 'it'\\''s on'", STOCK_HEALTHCHECK = "", STOCK_USER = "app"
    })
    error_message = "Expected what role.json says of the process, and nothing of what it leaves to the image."
  }
}

run "entries_may_be_stated_and_published" {
  command = plan

  variables {
    entries     = ["store", "shop"]
    entry_ports = { shop = 18090 }
  }
  assert {
    condition = output.fleet.endpoints.entries == [
      { tier = "store", protocol = "redis", urls = ["redis://198.18.115.11:7000/", "redis://198.18.115.12:7000/"] },
      { tier = "shop", protocol = "http", urls = ["http://198.18.112.11/"] },
    ]
    error_message = "Expected the entries in the order in which they are stated, standbys left out."
  }
  assert {
    condition     = output.published.entries == [{ tier = "store", url = "redis://127.0.0.1:18080/" }, { tier = "shop", url = "http://127.0.0.1:18090/" }]
    error_message = "Expected a port for each entry."
  }
  assert {
    condition     = fleet_machine.this["store-1"].published_ports == tomap({ "7000" = 18080 }) && fleet_machine.this["arbiter-shop"].published_ports == tomap({ "80" = 18090 })
    error_message = "Expected the first machine of a tier without an arbiter to be published."
  }
}

run "port_of_a_tier_that_is_no_entry_is_refused" {
  command         = plan
  expect_failures = [var.entry_ports]
  variables {
    entry_ports = { cache = 18090 }
  }
}

run "misspelt_key_of_a_role_is_refused" {
  command         = plan
  expect_failures = [var.tiers]
  variables {
    roles_dirs = ["infra/roles", "infra/stacks/shared/fixtures/broken"]
    tiers      = { own = { role = "misspelt", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 } }
    arbiters   = {}
  }
}

run "protocol_that_is_none_is_refused" {
  command         = plan
  expect_failures = [var.tiers]
  variables {
    roles_dirs = ["infra/roles", "infra/stacks/shared/fixtures/broken"]
    tiers      = { own = { role = "impossible", nodes = 1, cpus = 0.5, memory_mb = 128, nic_mbps = 100, disk_mbps = 50 } }
    arbiters   = {}
  }
}

run "folder_without_roles_is_refused" {
  command         = plan
  expect_failures = [var.roles_dirs]
  variables {
    roles_dirs = ["infra/roles", "infra/stacks/local"]
  }
}
