"""Specifications: what is accepted, and how everything else is refused."""
# ruff: noqa: E501  (a mistake and its message are read on one line)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.errors import InputError
from experiments.schedule import blocks
from experiments.spec import Design, Selector, designs_available, load_design

TFVARS = """\
# the fleet
experiment = "mediawiki-noisy"
scheme     = "on-prem"
tiers = {
  web = { role = "mediawiki", backend = "db", nodes = 4, standby = 1, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  db  = {
    role = "mariadb"
    nodes = 3
    cpus = 1
    memory_mb = 512, nic_mbps = 200, disk_mbps = 80
    instance_type = "t3.small"
  }
}
arbiters = {
  web = { policy = "round-robin", replicas = 1, tokens = 1 }
  db  = { policy = "round-robin", replicas = 1, tokens = 12 }
}
"""

TOML = """\
[load]
user = "wiki-reader"
arrivals = "poisson"
rate_per_s = 5  # pages
[phases]
warm_up = 15
measure = 60
[interference]
pattern = "both"
kinds = ["cpu", "iperf"]
[[faults]]
kind = "process.crash"
select = { tier = "web", count = 1 }
at_s = 10.0
for_s = 15.0
[[faults]]
kind = "net.limp"
select = { machine = "db-2" }
at_s = 20.0
sticky = true
parameters = { factor = 10 }
[arms.baseline]
policy = "round-robin"
replicas = { web = 1, db = 1 }
[arms.spare]
policy = "tad"
replicas = { web = 2, db = 2 }
tokens = { web = 1, db = 12 }
[slo]
availability = 0.999
p95_ms = 500.0
p99_ms = 1000.0
max_error_share = 0.01
[design]
order = "ABBA"
repeats = 2
seed = 20260101
"""


def write(directory: Path, tfvars: str = TFVARS, toml: str = TOML) -> Path:
    (directory / "fleet.tfvars").write_text(tfvars)
    (directory / "experiment.toml").write_text(toml)
    return directory


def design(directory: Path) -> Design:
    return load_design(write(directory))


def refusal(directory: Path, tfvars: str = TFVARS, toml: str = TOML) -> str:
    with pytest.raises(InputError) as caught:
        load_design(write(directory, tfvars, toml))
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(directory) + "/", "")


def test_a_design_is_read_with_defaults_and_tier_order(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert read.fleet.tier_order == ("web", "db")
    assert read.fleet.entry_tier == "web"
    assert read.fleet.nodes_of("web") == ("web-1", "web-2", "web-3", "web-4")
    assert read.fleet.machine_names[-3:] == ("arbiter-web", "arbiter-db", "influxdb-1")
    assert (read.fleet.tiers["db"].cpus, read.fleet.tiers["db"].standby) == (1.0, 0)
    assert read.experiment.load.response_timeout_s == 6.0
    assert read.experiment.interference.mean_gap_s == 40.0
    assert list(read.experiment.arms) == ["baseline", "spare"]


def test_one_arm_is_a_design_too(tmp_path: Path) -> None:
    baseline = TOML[TOML.index("[arms.baseline]") : TOML.index("[arms.spare]")]
    toml = TOML.replace(baseline, "").replace('order = "ABBA"', 'order = "A"')
    experiment = load_design(write(tmp_path, toml=toml)).experiment
    assert list(experiment.arms) == ["spare"]
    assert len(blocks(experiment)) == 2
    assert "expected each of A (the arms spare)" in refusal(
        tmp_path, toml=toml.replace('order = "A"', 'order = "AB"')
    )


def test_a_design_survives_its_own_json(tmp_path: Path) -> None:
    experiment = design(tmp_path).experiment
    text = json.dumps(experiment.model_dump(mode="json"))
    assert type(experiment).model_validate_json(text) == experiment


def test_selectors_name_machines_by_tier_and_by_name(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert [read.select(fault.select) for fault in read.experiment.faults] == [
        ("web-1",),
        ("db-2",),
    ]
    assert read.select(Selector(tier="db")) == ("db-1", "db-2", "db-3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate_per_s = 5", "rate_per_s = -5", r"experiment.toml:4: load.rate_per_s: expected greater than 0; came -5"),
        ("rate_per_s = 5", 'rate_per_s = "5"', "experiment.toml:4: load.rate_per_s: expected number; came '5'"),
        ("rate_per_s = 5", "rate_per_s = nan", "experiment.toml:4: load.rate_per_s: expected a finite number; came nan"),
        ("rate_per_s = 5", "rate_per_s = 1e9", "load.rate_per_s: expected less than or equal to 32000"),
        ("rate_per_s = 5", "workers = 3\nrate_per_s = 6001.0", "load.rate_per_s: expected at most 2000 per worker; came 6001 for workers = 3"),
        ("rate_per_s = 5", "max_in_flight = 3\nworkers = 4\nrate_per_s = 5", "load.workers: expected at most max_in_flight (3); came 4"),
        ("rate_per_s = 5", "workers = 0\nrate_per_s = 5", "load.workers: expected greater than or equal to 1; came 0"),
        ("rate_per_s = 5", "rate_per_m = 5", "experiment.toml:4: load.rate_per_m: expected one of the keys user, arrivals, rate_per_s"),
        ("rate_per_s = 5  # pages\n", "", "experiment.toml:1: load.rate_per_s: expected this key; came nothing"),
        ('arrivals = "poisson"', 'arrivals = "trace"', "experiment.toml:3: load.arrivals: expected 'poisson' or 'constant'; came 'trace'"),
        ("[phases]", "[faces]", "experiment.toml:5: faces: expected one of the keys load, phases"),
        ("[load]", "[load", "experiment.toml: expected valid TOML; came"),
        ('select = { tier = "web", count = 1 }', "select = {}", "experiment.toml:13: faults.0.select: expected { tier = NAME, count = N } or { machine = NAME }; came an empty selector"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "web", count = 0 }', "experiment.toml:13: faults.0.select.count: expected greater than or equal to 1; came 0"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "web", count = 5 }', "experiment.toml:13: faults.0.select: expected at most the tier's 4 nodes; came count = 5"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "app" }', "experiment.toml:13: faults.0.select: expected one of the tiers web, db; came the unknown tier app"),
        ('machine = "db-2"', 'machine = "db-9"', "experiment.toml:18: faults.1.select: expected one of the machines web-1,"),
        ('kind = "process.crash"', 'kind = "process.crush"', "experiment.toml:12: faults.0.kind: expected one of process.crash,"),
        ("at_s = 10.0", "at_s = 50", "experiment.toml:14: faults.0.at_s: expected a fault within the measurement (60.0 s); came one from 50.0 s to 65.0 s"),
        ("for_s = 15.0", "for_s = 15.0\nsticky = true", "experiment.toml:15: faults.0.for_s: expected either for_s = SECONDS or sticky = true; came both"),
        ("for_s = 15.0", "", "faults.0: expected either for_s = SECONDS or sticky = true; came neither"),
        ("factor = 10 ", "factor = 1 ", "experiment.toml:21: faults.1.parameters.factor: expected greater than 1; came 1"),
        ("factor = 10 ", "percent = 10 ", "experiment.toml:21: faults.1.parameters.percent: expected the parameters of net.limp (factor)"),
        ("web = 2, db = 2", "web = 5, db = 2", "experiment.toml:27: arms.spare.replicas.web: expected from 1 replica to the tier's 4 nodes; came 5"),
        ("web = 2, db = 2", "web = 2", "experiment.toml:27: arms.spare.replicas.db: expected from 1 replica to the tier's 3 nodes; came nothing"),
        ("web = 2, db = 2", "web = 2, db = 2, app = 1", "experiment.toml:27: arms.spare.replicas.app: expected one of the tiers web, db; came the unknown tier app"),
        ("tokens = { web = 1", "tokens = { wob = 1", "experiment.toml:28: arms.spare.tokens.wob: expected one of the tiers web, db"),
        ('order = "ABBA"', 'order = "ABB"', "experiment.toml:35: design.order: expected each of A, B (the arms baseline, spare) equally often; came 'ABB'"),
        ('order = "ABBA"', 'order = "ABCA"', "design.order: expected each of A, B"),
        ("max_error_share = 0.01", "max_error_share = 1.01", "experiment.toml:33: slo.max_error_share: expected less than or equal to 1"),
    ],
)  # fmt: skip
def test_an_impossible_experiment_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in TOML
    assert message in refusal(tmp_path, toml=TOML.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes = 3", "nodes = -3", "fleet.tfvars:8: tiers.db.nodes: expected greater than or equal to 1; came -3"),
        ("nodes = 3", "nodes = 1 + 2", "fleet.tfvars:8: tiers.db.nodes: expected integer; came '${1 + 2}'"),
        ("nodes = 3", "notes = 3", "fleet.tfvars:8: tiers.db.notes: expected one of the keys role, nodes"),
        ("nodes = 3", "nodes = 3\n    nodes = 4", "fleet.tfvars:9: tiers.db.nodes: expected each key once; came it a second time"),
        ('role = "mariadb"', 'role = "postgres"', "fleet.tfvars:7: tiers.db.role: expected 'apache', 'mediawiki', 'mariadb', 'memcached', 'redis', 'solr' or 'solr-ui'; came 'postgres'"),
        ('backend = "db"', 'backend = "sql"', "fleet.tfvars:5: tiers.web.backend: expected one of the tiers web, db; came the unknown tier sql"),
        ('backend = "db", ', "", "fleet.tfvars:4: tiers: expected exactly one tier that is nobody's backend (the entry), and no cycle; came web, db"),
        ('role = "mariadb"', 'role = "mariadb"\n    backend = "web"', "expected exactly one tier that is nobody's backend (the entry), and no cycle; came none"),
        ('  db  = { policy = "round-robin", replicas = 1, tokens = 12 }\n', "", "fleet.tfvars:14: arbiters.db: expected an arbiter for every tier; came none for the tier db"),
        ("replicas = 1, tokens = 12", "replicas = 4, tokens = 12", "fleet.tfvars:16: arbiters.db.replicas: expected at most as many replicas as the tier has nodes (3); came 4"),
        ("replicas = 1, tokens = 12", "replicas = 1, tokens = 0", "fleet.tfvars:16: arbiters.db.tokens: expected greater than or equal to 1; came 0"),
        ("  db  = { policy", "  sql  = { policy", "arbiters.db: expected an arbiter for every tier"),
        ('scheme     = "on-prem"', 'scheme = "on_prem"', "fleet.tfvars:3: scheme: expected 'cloud' or 'on-prem'; came 'on_prem'"),
        ('scheme     = "on-prem"', 'scheme = "on-prem"\ndata_cidr = "198.18.0.0/99"', "fleet.tfvars:4: data_cidr: expected an IPv4 network such as 198.18.0.0/16"),
        ('scheme     = "on-prem"', "scheme = {", "fleet.tfvars:"),
        ('"mediawiki-noisy"', '"Media Wiki"', "fleet.tfvars:2: experiment: expected"),
    ],
)  # fmt: skip
def test_an_impossible_fleet_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in TFVARS
    assert message in refusal(tmp_path, tfvars=TFVARS.replace(old, new, 1))


def test_a_cycle_behind_the_entry_is_refused(tmp_path: Path) -> None:
    tier = '= {{ role = "mariadb", backend = "{}", nodes = 1, cpus = 1, memory_mb = 512, nic_mbps = 1, disk_mbps = 1, instance_type = "t" }}'
    arbiter = '= { policy = "tad", replicas = 1, tokens = 1 }'
    tfvars = TFVARS.replace("\n}\narbiters = {", f"\n  p {tier.format('q')}\n  q {tier.format('p')}\n}}\narbiters = {{\n  p {arbiter}\n  q {arbiter}")  # fmt: skip
    message = refusal(tmp_path, tfvars=tfvars)
    assert "expected every tier to be reached from the entry tier web; came p, q" in message


def test_all_mistakes_of_a_file_come_at_once(tmp_path: Path) -> None:
    toml = TOML.replace("rate_per_s = 5", "rate_per_s = 0").replace("measure = 60", "measure = -1")
    message = refusal(tmp_path, toml=toml)
    assert "load.rate_per_s" in message
    assert "phases.measure" in message


def test_a_missing_file_and_an_unknown_design_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "fleet.tfvars").unlink()
    with pytest.raises(InputError, match=r"fleet\.tfvars: expected this file; came no such file"):
        load_design(tmp_path)
    with pytest.raises(InputError, match="design nowhere: expected a folder, or one of"):
        load_design("nowhere")


def test_every_design_that_comes_with_sparecraft_is_valid() -> None:
    for name in designs_available():
        read = load_design(name)
        assert read.fleet.experiment == read.name
