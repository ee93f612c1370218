"""Notes of `sparecraft check`: what a sound design will not give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.design import Design, load_design
from experiments.design.notes import caps_of, notes_on
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.tests.spec_fixture import design

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
        found = codes(replace(design, roles=roles), plans=False)
        assert found == ({("store", code), ("direct", code)} if code else set())


def test_every_role_of_sparecraft_s_that_a_tier_may_have_says_what_state_it_keeps() -> None:
    silent = [name for name, role in find_roles().items() if role.tier and not role.state]
    assert silent == []


def test_caps_beyond_the_hosts_cores_are_told_where_machines_share_a_host(tmp_path: Path) -> None:
    read = design(tmp_path)
    assert caps_of(read.fleet) == pytest.approx(4 * 0.6 + 3 * 1)
    for cores, told in ((None, False), (6, False), (5, True)):
        found = {one.code for one in notes_on(read.fleet, read.roles, True, cores)}
        assert ("caps-beyond-host" in found) is told
