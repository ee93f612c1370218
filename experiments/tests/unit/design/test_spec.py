"""Specifications: what is accepted, and how everything else is refused."""
# ruff: noqa: E501  (a mistake and its message are read on one line)

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from core.config_file import Strict
from core.errors import InputError
from experiments.design import load_design
from experiments.design.contracts import DEFAULT_POLICY
from experiments.design.design import DESIGNS
from experiments.design.experiment import Phases, Selector
from experiments.design.injections import selected
from experiments.design.schedule import blocks
from experiments.paths import ROOT
from experiments.tests.spec_fixture import TFVARS, TOML, design, role, write


def refusal(directory: Path, tfvars: str = TFVARS, toml: str = TOML) -> str:
    with pytest.raises(InputError) as error:
        load_design(write(directory, tfvars, toml))
    assert error.value.exit_code == 2
    return str(error.value).replace(str(directory) + "/", "")


def test_a_design_is_read_with_defaults_and_tier_order(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert read.fleet.tier_order == ("web", "db")
    assert read.fleet.entry_tier == "web"
    assert read.fleet.nodes_of("web") == ("web-1", "web-2", "web-3", "web-4")
    assert read.fleet.machine_names[-3:] == ("arbiter-web", "arbiter-db", "influxdb-1")
    assert (read.fleet.tiers["db"].cpus, read.fleet.tiers["db"].standby) == (1.0, 0)
    assert read.experiment.load.response_timeout_s == 6.0
    assert read.experiment.interference.mean_gap_s == 40.0
    assert list(read.experiment.arms) == ["baseline", "replicated"]


def test_the_editors_schema_accepts_every_built_in_design() -> None:
    schema = json.loads((ROOT / "contracts/experiment.schema.json").read_text())
    for file in DESIGNS.glob("*/experiment.toml"):
        jsonschema.validate(tomllib.loads(file.read_text()), schema)


def test_one_arm_is_a_design_too(tmp_path: Path) -> None:
    toml = TOML.replace("[arms.baseline]\n", "").replace('order = "ABBA"', 'order = "A"')
    experiment = load_design(write(tmp_path, toml=toml)).experiment
    assert list(experiment.arms) == ["replicated"]
    assert len(blocks(experiment)) == 2
    toml = toml.replace('order = "A"', 'order = "AB"')
    assert "experiment.toml:31: design.order" in refusal(tmp_path, toml=toml)


def test_an_arm_has_the_fleets_tokens_and_a_plain_policy_unless_it_says_more(
    tmp_path: Path,
) -> None:
    read = design(tmp_path)
    baseline, replicated = read.experiment.arms.values()
    assert (baseline.of("db").policy, baseline.of("db").replicas) == (DEFAULT_POLICY, 1)
    assert (baseline.tokens_of("db", read.fleet), replicated.tokens_of("web", read.fleet)) == (
        12,
        1,
    )
    assert (replicated.of("db").policy, replicated.of("db").replicas) == ("tad", 1)


def test_a_design_survives_its_own_json(tmp_path: Path) -> None:
    experiment = design(tmp_path).experiment
    text = json.dumps(experiment.model_dump(mode="json"))
    assert type(experiment).model_validate_json(text) == experiment


def test_a_kind_has_a_section_of_its_own(tmp_path: Path) -> None:
    class Turns(Strict):
        turns: int = 1

    read = design(tmp_path)
    assert read.experiment.kind == "compare"
    assert read.section(Turns) == Turns(turns=1)
    lines = TOML.replace("[load]", 'kind = "roundabout"\n[load]')
    read = load_design(write(tmp_path, toml=lines + "[roundabout]\nturns = 3\n"))
    assert read.section(Turns) == Turns(turns=3)
    read = load_design(write(tmp_path, toml=lines + '[roundabout]\nturns = "x"\n'))
    with pytest.raises(InputError) as error:
        read.section(Turns)
    assert error.value.place == f"{tmp_path}/experiment.toml:37: roundabout.turns"


def test_selectors_name_machines_by_tier_and_by_name(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert [selected(fault.select, read.fleet) for fault in read.experiment.faults] == [
        ("web-1",),
        ("db-2",),
    ]
    assert selected(Selector(tier="db"), read.fleet) == ("db-1", "db-2", "db-3")
    assert selected(Selector(tier="db", place="first"), read.fleet) == ("db-1",)
    assert selected(Selector(tier="db", place="others"), read.fleet) == ("db-2", "db-3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate_per_s = 5", "rate_per_s = -5", "experiment.toml:4: load.rate_per_s"),
        ("p99_ms = 1000.0", "p99_ms = 10.0", "slo.p99_ms"),
        ("rate_per_s = 5", 'rate_per_s = "5"', "experiment.toml:4: load.rate_per_s"),
        ("rate_per_s = 5", "rate_per_s = nan", "experiment.toml:4: load.rate_per_s"),
        ("rate_per_s = 5", "rate_per_s = 1e9", "load.rate_per_s"),
        ("rate_per_s = 5", "workers = 2\nrate_per_s = 20001.0", "load.rate_per_s"),
        ("rate_per_s = 5", "workers = 4\nrate_per_s = 32001.0", "load.rate_per_s"),
        ("rate_per_s = 5", 'worker = "locust"\nworkers = 3\nrate_per_s = 6001.0', "load.rate_per_s"),
        ("rate_per_s = 5", "max_in_flight = 3\nworkers = 4\nrate_per_s = 5", "load.workers"),
        ("rate_per_s = 5", "workers = 0\nrate_per_s = 5", "load.workers"),
        ("rate_per_s = 5", "rate_per_m = 5", "experiment.toml:4: load.rate_per_m"),
        ("rate_per_s = 5  # pages\n", "", "experiment.toml:1: load.rate_per_s"),
        ('arrivals = "poisson"', 'arrivals = "trace"', "experiment.toml:3: load.arrivals"),
        ("[phases]", "[faces]", "experiment.toml:5: faces"),
        ("[phases]", "[phases]\nrequests = 55", "experiment.toml:6: phases.requests"),
        ("[load]", "[load", "experiment.toml"),
        ('select = { tier = "web", count = 1 }', "select = {}", "experiment.toml:13: faults.0.select"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "web", count = 0 }', "experiment.toml:13: faults.0.select.count"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "web", count = 5 }', "experiment.toml:13: faults.0.select"),
        ('select = { tier = "web", count = 1 }', 'select = { tier = "app" }', "experiment.toml:13: faults.0.select"),
        ('machine = "db-2"', 'machine = "db-9"', "experiment.toml:18: faults.1.select"),
        ('kind = "process.crash"', 'kind = "process.crush"', "experiment.toml:12: faults.0.kind"),
        ("at_s = 10.0", "at_s = 50", "experiment.toml:14: faults.0.at_s"),
        ("for_s = 15.0", "for_s = 15.0\nsticky = true", "experiment.toml:15: faults.0.for_s"),
        ("for_s = 15.0", "", "faults.0"),
        ("factor = 10 ", "factor = 1 ", "experiment.toml:21: faults.1.parameters.factor"),
        ("factor = 10 ", "percent = 10 ", "experiment.toml:21: faults.1.parameters.percent"),
        ("replicas = 2, tokens = 1 ", "replicas = 5 ", "experiment.toml:24: arms.replicated.settings.web.replicas"),
        ("db = { policy", "app = { policy", "experiment.toml:25: arms.replicated.settings.app"),
        ("tokens = 12", "tokens = 1001", "experiment.toml:25: arms.replicated.settings.db.tokens"),
        ("tokens = 12", "WEIGHT = 2", "experiment.toml:25: arms.replicated.settings.db.WEIGHT"),
        ("tokens = 12", "look_ahead = -1", "experiment.toml:25: arms.replicated.settings.db.look_ahead"),
        ('policy = "tad", replicas = 1, tokens = 12', 'policy = "c3", look_ahead = 1', "experiment.toml:25: arms.replicated.settings.db.look_ahead"),
        ('db = { policy = "tad"', 'db = { policy = "fastest"', "experiment.toml:25: arms.replicated.settings.db.policy"),
        ('order = "ABBA"', 'order = "ABB"', "experiment.toml:32: design.order"),
        ('order = "ABBA"', 'order = "ABCA"', "design.order"),
        ("max_error_share = 0.01", "max_error_share = 1.01", "experiment.toml:30: slo.max_error_share"),
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
        ("nodes = 3", "nodes = -3", "fleet.tfvars:8: tiers.db.nodes"),
        ("nodes = 3", "nodes = 1 + 2", "fleet.tfvars:8: tiers.db.nodes"),
        ("nodes = 3", "notes = 3", "fleet.tfvars:8: tiers.db.notes"),
        ("nodes = 3", "nodes = 3\n    nodes = 4", "fleet.tfvars:9: tiers.db.nodes"),
        ('role = "mariadb"', 'role = "postgres"', "fleet.tfvars:7: tiers.db.role"),
        ('role = "mariadb"', 'role = "arbiter"', "fleet.tfvars:7: tiers.db.role"),
        ('role = "mariadb"', 'role = "memcached"', "fleet.tfvars:5: tiers.web.calls"),
        ('calls = ["db"]', 'calls = ["sql"]', "fleet.tfvars:5: tiers.web.calls"),
        ('calls = ["db"], ', "", "fleet.tfvars:5: tiers.web.calls"),
        ('role = "mariadb"', 'role = "mediawiki"\n    calls = ["web"]', "fleet.tfvars:5: tiers.web.calls"),
        ("  db  = { tokens = 12 }", "  sql = { tokens = 12 }", "fleet.tfvars:16: arbiters.sql"),
        ("tokens = 12", "tokens = 0", "fleet.tfvars:16: arbiters.db.tokens"),
        ("  db  = { tokens = 12 }", '  db  = { policy = "tad" }', "fleet.tfvars:16: arbiters.db.policy"),
        ("\ntiers = {", '\nentries = ["db"]\ntiers = {', "fleet.tfvars:4: entries"),
        ("nodes = 4, standby = 1", "nodes = 99, standby = 2", "fleet.tfvars:5: tiers.web.nodes"),
        ('scheme     = "on-prem"', 'scheme = "on_prem"', "fleet.tfvars:3: scheme"),
        ('scheme     = "on-prem"', 'scheme = "on-prem"\ndata_cidr = "198.18.0.0/99"', "fleet.tfvars:4: data_cidr"),
        ('scheme     = "on-prem"', "scheme = {", "fleet.tfvars:"),
        ('"mediawiki-noisy"', '"Media Wiki"', "fleet.tfvars:2: experiment"),
    ],
)  # fmt: skip
def test_an_impossible_fleet_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in TFVARS
    assert message in refusal(tmp_path, tfvars=TFVARS.replace(old, new, 1))


def test_a_cycle_behind_the_entry_is_refused(tmp_path: Path) -> None:
    tier = '= {{ role = "mediawiki", calls = ["{}"], nodes = 1, cpus = 1, memory_mb = 512, nic_mbps = 1, disk_mbps = 1 }}'
    tfvars = TFVARS.replace("\n}\narbiters = {", f"\n  p {tier.format('q')}\n  q {tier.format('p')}\n}}\narbiters = {{")  # fmt: skip
    message = refusal(tmp_path, tfvars=tfvars)
    assert "fleet.tfvars:13: tiers.p.calls" in message
    assert "fleet.tfvars:14: tiers.q.calls" in message


def test_tiers_form_any_graph_without_a_cycle_and_need_no_arbiter(tmp_path: Path) -> None:
    """Two entries, one of which is called too; a page's cache beside its database."""
    shop = {"summary": "A shop", "protocol": "http", "port": 80, "arbiter": False,
            "calls": [{"roles": ["mariadb"]}, {"roles": ["memcached"], "required": True}]}  # fmt: skip
    role(tmp_path, "shop", shop)
    tfvars = TFVARS.replace('"mediawiki", calls = ["db"]', '"shop", calls = ["db", "cache"]')
    tfvars = tfvars.replace("  web = { tokens = 1 }\n", "").replace(
        "\n}\narbiters",
        '\n  cache = { role = "memcached", nodes = 1, cpus = 1, memory_mb = 64, nic_mbps = 1, disk_mbps = 1 }\n}\n'
        'entries = ["web", "cache"]\narbiters',
    )
    toml = TOML.replace('web = { policy = "tad", replicas = 2, tokens = 1 }\n', "")
    toml = toml.replace('"wiki-reader"', '"cache-reader"')
    fleet = load_design(write(tmp_path, tfvars, toml)).fleet
    assert fleet.tier_order == ("web", "db", "cache")
    assert fleet.entry_tiers == ("web", "cache")
    assert fleet.arbiter_order == ("db",)
    assert "arbiter-web" not in fleet.machine_names
    message = refusal(tmp_path, tfvars.replace("arbiters = {", "arbiters = {\n  web = {}"), toml)
    assert "fleet.tfvars:17: arbiters.web" in message
    message = refusal(tmp_path, tfvars, toml.replace("db = { policy", "cache = { policy"))
    assert "arms.replicated.settings.cache" in message


def test_all_mistakes_of_a_file_come_at_once(tmp_path: Path) -> None:
    toml = TOML.replace("rate_per_s = 5", "rate_per_s = 0").replace("measure = 60", "measure = -1")
    message = refusal(tmp_path, toml=toml)
    assert "load.rate_per_s" in message
    assert "phases.measure" in message


def test_a_missing_file_and_an_unknown_design_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "fleet.tfvars").unlink()
    with pytest.raises(InputError, match=r"fleet\.tfvars: expected this file \(got no such file\)"):
        load_design(tmp_path)
    with pytest.raises(InputError, match="design nowhere: expected a folder, or"):
        load_design("nowhere")


WORKLOAD = """\
from experiments.design.workloads import Operation, Population, Workload

def asked():
    return Population((Operation("a", "/a", "a", ENTRY),), 0.0)

WORKLOADS = {"mine": Workload(asked, ("own",))}
"""


@pytest.mark.parametrize(
    ("protocol", "entry", "said"),
    [("http", "", None), ("http", "web", None),
     ("http", "db", "load.user: expected operations on the entry tiers web"),
     ("tcp", "", "load.user: expected a protocol that the load speaks")],
)  # fmt: skip
def test_a_design_brings_its_own_role_and_what_users_ask_of_it(
    tmp_path: Path, protocol: str, entry: str, said: str | None
) -> None:
    directory = write(
        tmp_path,
        TFVARS.replace('role = "mediawiki"', 'role = "own"'),
        TOML.replace('user = "wiki-reader"', 'user = "mine"'),
    )
    values = {"summary": "Its own", "protocol": protocol, "port": 80, "calls": [{}]}
    role(directory, "own", values, "Dockerfile")
    (directory / "workload.py").write_text(WORKLOAD.replace("ENTRY", repr(entry)))
    if said is None:
        assert load_design(directory).workloads["mine"].roles == ("own",)
        return
    with pytest.raises(InputError) as error:
        load_design(directory)
    assert said in str(error.value)


def test_at_a_low_calibrated_rate_a_block_is_measured_longer_up_to_twice() -> None:
    phases = Phases(warm_up=4.0, measure=20.0, requests=55)
    assert phases.at(5.0) == Phases(warm_up=4.0, measure=20.0)
    assert phases.at(2.0).measure == 27.5
    assert phases.at(0.5).measure == 40.0
    assert Phases(warm_up=4.0, measure=20.0).at(0.5).measure == 20.0
