"""Notes and refusals of `check` for a sound design, and the faults of each platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.contracts import KINDS, MACHINE_KINDS
from experiments.design.feasible import infeasible
from experiments.design.notes import caps_of, notes_on
from experiments.design.roles import find_roles
from experiments.design.text import experiment_text
from experiments.paths import ROOT
from experiments.record.manifest import infeasible_json
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.spec_fixture import TFVARS, TOML, design, write
from optimizer.replication import COLLISION_MAX

SETTINGS = ROOT / "experiments" / "tests" / "designs" / "settings"  # Redis, some with standbys


def codes(design: Design, plans: bool = True) -> set[tuple[str, str]]:
    return {(note.tier, note.code) for note in notes_on(design.fleet, design.roles, plans)}


def test_a_tier_without_an_arbiter_is_noted_where_a_fleet_is_to_be_planned() -> None:
    design = load_design(SETTINGS)
    assert ("direct", "no-arbiter") in codes(design)
    assert not {tier for tier, code in codes(design, plans=False) if code == "no-arbiter"}
    assert ("store", "no-arbiter") not in codes(design)


def test_a_standby_is_noted_by_what_its_role_says_of_state() -> None:
    design = load_design(SETTINGS)
    redis = design.roles["redis"]
    for state, code in (("own", "spare-without-state"), (None, "state-not-said"),
                        ("copied", None), ("none", None)):  # fmt: skip
        roles = {**design.roles, "redis": redis.model_copy(update={"state": state})}
        pairs = codes(replace(design, roles=roles), plans=False)
        assert pairs == ({("store", code), ("direct", code)} if code else set())


def codes_of_tiers(read: Design, arbiter: str, **tiers: Mapping[str, object]) -> list[str]:
    """The notes on a fleet of these tiers, changes of the design's web, one behind an arbiter."""
    web = read.fleet.tiers["web"]
    changes = {
        "tiers": {name: web.model_copy(update=values) for name, values in tiers.items()},
        "arbiters": {arbiter: next(iter(read.fleet.arbiters.values()))},
    }
    fleet = read.fleet.model_copy(update=changes)
    return [note.code for note in notes_on(fleet, read.roles, True)]


def test_a_standby_of_a_tier_that_is_promoted_is_none_of_these(tmp_path: Path) -> None:
    read = design(tmp_path)
    sentinels = {"role": "redis-sentinel", "calls": ()}
    store = {"role": "redis", "standby": 1, "calls": ("sentinels",)}
    assert codes_of_tiers(read, "store", store=store, sentinels=sentinels) == []
    alone = {**store, "calls": ()}
    assert codes_of_tiers(read, "store", store=alone) == ["spare-without-state"]


@pytest.mark.parametrize(("nodes", "expected"), [(2, ["too-few-to-promote"]), (3, [])])
def test_a_tier_that_promotes_itself_is_noted_if_a_loss_leaves_too_few(
    tmp_path: Path, nodes: int, expected: list[str]
) -> None:
    tier = {"role": "mariadb-galera", "nodes": nodes, "standby": 1, "calls": ()}
    assert codes_of_tiers(design(tmp_path), "db", db=tier) == expected


def test_every_role_of_sparecraft_s_that_a_tier_may_have_says_what_state_it_keeps() -> None:
    silent = [name for name, role in find_roles().items() if role.tier and not role.state]
    assert silent == []


def test_caps_beyond_the_hosts_cores_are_told_where_machines_share_a_host(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert caps_of(read.fleet) == pytest.approx(4 * 0.6 + 3 * 1)
    for cores, expected in ((None, False), (6, False), (5, True)):
        note_codes = {note.code for note in notes_on(read.fleet, read.roles, True, cores)}
        assert ("caps-beyond-host" in note_codes) is expected


DB = 'db = { policy = "tad", replicas = 1, tokens = 12 }'
COPIED = TOML.replace(DB, DB.replace("replicas = 1", "replicas = 2"))
ALLOWED = COPIED.replace(
    "[arms.replicated.settings]",
    "[arms.replicated]\nallow_infeasible = true\n[arms.replicated.settings]",
)


def test_copies_that_must_meet_on_a_server_are_refused_with_what_would_help(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load_design(write(tmp_path, toml=COPIED))
    assert error.value.place.endswith("arms.replicated.settings.db.replicas")
    assert "probability 1 " in error.value.got
    assert "give db 8 nodes" in error.value.hint  # of 7: 1 - 10 / 21, of 8: 1 - 15 / 28
    assert "[arms.replicated]" in error.value.hint


def test_an_arm_may_allow_it_and_the_manifest_says_so(tmp_path: Path) -> None:
    read = load_design(write(tmp_path, toml=ALLOWED))
    [row] = infeasible_json(read)
    assert (row["arm"], row["tier"], row["rule"], row["value"], row["limit"], row["allowed"]) == (
        "replicated", "db", "collision", 1.0, COLLISION_MAX, True,
    )  # fmt: skip
    folder = write(tmp_path, toml=experiment_text(read.experiment, "again"))
    assert load_design(folder).experiment == read.experiment


def test_the_limit_itself_may_be_reached(tmp_path: Path) -> None:
    tfvars = TFVARS.replace("nodes = 3", "nodes = 2")
    read = load_design(write(tmp_path, tfvars=tfvars))
    assert infeasible(read.experiment, read.fleet) == []  # two copies on two servers: 1 / 2


def test_a_tier_before_which_nothing_is_copied_has_no_collisions(tmp_path: Path) -> None:
    toml = COPIED.replace("replicas = 2, tokens = 1 ", "replicas = 1, tokens = 1 ")
    read = load_design(write(tmp_path, toml=toml))
    assert infeasible(read.experiment, read.fleet) == []


@pytest.mark.parametrize(("used", "rules"), [(0.999, []), (1.0, ["stability"])])
def test_stability_is_judged_where_the_utilisation_is_known(
    tmp_path: Path, used: float, rules: list[str]
) -> None:
    read = design(tmp_path)
    violations = infeasible(read.experiment, read.fleet, {"replicated": {"web": used, "db": 0.2}})
    assert [violation.rule for violation in violations] == rules
    assert all(
        (violation.arm, violation.tier, violation.value) == ("replicated", "web", used)
        for violation in violations
    )


VERDICTS = ("same", "approximated:", "not possible:")


def _rows() -> dict[str, tuple[str, str]]:
    """kind: (what the table says of local, and of EC2)."""
    text = (ROOT / "infra" / "stacks" / "README.md").read_text()
    table = text.split("| kind | local | EC2 |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z._]+)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    assert len(rows) == len({kind for kind, _, _ in rows})
    return {kind: (local, ec2) for kind, local, ec2 in rows}


def test_every_kind_of_fault_and_interference_has_its_row() -> None:
    assert set(_rows()) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_where_its_row_says_by_the_platform_or_the_agent(kind: str) -> None:
    local, ec2 = _rows()[kind]
    assert ec2.startswith(VERDICTS)
    stand_in = Ec2Machines.through_agent.get(kind)
    assert stand_in is None or ec2.startswith(f"approximated: `{stand_in}` by the agent")
    assert local.startswith("agent") == (kind not in MACHINE_KINDS)
    readme = (ROOT / "agents/nodeagent/README.md").read_text()
    by_agent = Ec2Machines.through_agent.get(kind, kind)
    if by_agent not in MACHINE_KINDS:
        assert f"`{by_agent}`" in readme
    assert kind not in LocalPlatform.through_agent
