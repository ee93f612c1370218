"""Faults over time: transient, sticky, recurring, on whom, and drawn ahead from the seed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.experiment import Fault, Repeat, Selector
from experiments.design.injections import Injection, injections, most_at_once, peers_of, selected
from experiments.design.schedule import GAP_S_MIN, Block, blocks, fault_begins, phase_windows
from experiments.tests.called import answer, call
from experiments.tests.spec_fixture import TOML, write
from random_tests import examples

CRASH = 'kind = "process.crash"\nselect = { tier = "web", count = 1 }\nat_s = 10.0\nfor_s = 15.0\n'
LAWS = ("fixed", "poisson", "gaussian")


def disturbances(directory: Path) -> list[dict[str, Any]]:
    """The output of `sparecraft check` for the design there."""
    return list(answer("check", str(directory))["disturbances"])


def again(law: str, gap_s: float = 20.0, times_max: int = 1000) -> Repeat:
    spread_s = 5.0 if law == "gaussian" else None
    return Repeat.model_validate(
        {"distribution": law, "gap_s": gap_s, "spread_s": spread_s, "times_max": times_max}
    )


def recurring(pattern: Repeat | None) -> Fault:
    crashes = Selector(machine="web-1")
    return Fault(kind="process.crash", select=crashes, at_s=10.0, for_s=2.0, repeat=pattern)


def changed(directory: Path, fault: str) -> Design:
    """The fixture's design with another first fault."""
    assert CRASH in TOML
    return load_design(write(directory, toml=TOML.replace(CRASH, fault)))


def of_first_fault(read: Design, block: Block) -> list[Injection]:
    drawn = injections(read.experiment, read.fleet, block)
    return [injection for injection in drawn if injection.fault == 0]


@given(st.sampled_from(LAWS), st.integers(2, 50), st.integers(0, 2**63 - 1))
@examples(60)
def test_turns_ascend_apart_are_bounded_and_depend_on_the_seed_alone(
    law: str, times_max: int, seed: int
) -> None:
    fault = recurring(again(law, 3.0, times_max))
    begins = fault_begins(fault, 0, 300.0, seed)
    assert begins == fault_begins(fault, 0, 300.0, seed)
    assert begins[0] == 10.0
    assert len(begins) <= times_max
    assert begins[-1] < 300.0
    assert all(after - before >= 2.0 + GAP_S_MIN - 1e-9 for before, after in pairwise(begins))
    longer = fault_begins(fault, 0, 600.0, seed)
    assert longer[: len(begins)] == begins


@pytest.mark.parametrize("law", LAWS)
def test_gaps_have_the_mean_that_is_asked(law: str) -> None:
    begins = np.array(fault_begins(recurring(again(law)), 0, 1e6, 1))
    gaps = np.diff(begins) - 2.0
    assert len(gaps) == 999
    # The standard error is at most 20 / sqrt(999) = 0.6 s.
    assert gaps.mean() == pytest.approx(20.0, abs=3.0)
    assert gaps.std() == pytest.approx({"fixed": 0.0, "poisson": 20.0, "gaussian": 5.0}[law], abs=3)


def test_two_recurring_faults_of_a_design_have_streams_of_their_own() -> None:
    fault = recurring(again("poisson"))
    assert fault_begins(fault, 0, 500.0, 7)[1:] != fault_begins(fault, 1, 500.0, 7)[1:]


def test_a_transient_fault_comes_once() -> None:
    assert fault_begins(recurring(None), 0, 500.0, 7) == (10.0,)


def test_both_arms_meet_a_recurring_fault_at_the_same_times(tmp_path: Path) -> None:
    fault = CRASH.replace("for_s = 15.0", "for_s = 1.0") + (
        'repeat = { distribution = "poisson", gap_s = 5, times_max = 8 }\n'
    )
    read = changed(tmp_path, fault)
    times = [
        [injection.at_s for injection in of_first_fault(read, block)]
        for block in blocks(read.experiment)[:3]
    ]
    assert times[0] == times[1] != times[2]
    assert times[0][0] == times[2][0] == 25.0  # warm-up and at_s
    assert [window.phase for window in phase_windows(read.experiment)] == [
        "warm-up", "measure", "fault",
    ]  # fmt: skip


def test_a_dry_run_shows_when_a_recurring_fault_comes(tmp_path: Path) -> None:
    fault = CRASH.replace("for_s = 15.0", "for_s = 1.0") + (
        'repeat = { distribution = "gaussian", gap_s = 8, spread_s = 2, times_max = 3 }\n'
    )
    read = changed(tmp_path, fault)
    rows = disturbances(tmp_path)
    (crash,) = (row for row in rows if row["kind"] == "process.crash")
    repeat = {"distribution": "gaussian", "gap_s": 8.0, "spread_s": 2.0, "times_max": 3}
    assert crash["repeat"] == repeat
    assert list(crash["begins_s"]) == [str(number) for number in range(1, 9)]
    assert crash["begins_s"]["1"] == crash["begins_s"]["2"]  # a pair
    times = sum(map(len, crash["begins_s"].values()))
    assert crash["machines"] == {"web-1": {"times": times, "seconds": float(times)}}
    output = call("run", str(read.directory), "--dry-run").output
    assert "repeat" in output.split()
    assert "begins" in output.split()


FLAKY = """\
kind = "net.flaky"
select = { all = true }
at_s = 10.0
for_s = 15.0
parameters = { outage_s = 1, gap_s = 2 }
"""
SPLIT = """\
kind = "net.partition"
select = { machine = "web-1" }
at_s = 10.0
for_s = 15.0
parameters = { peers = "web, db-2" }
"""


def seeds(read: Design, block: Block) -> set[Any]:
    drawn = of_first_fault(read, block)
    return {step.parameters["seed"] for injection in drawn for step in injection.steps}


def test_a_switch_is_all_machines_of_every_tier_with_one_seed(tmp_path: Path) -> None:
    read = changed(tmp_path, FLAKY)
    names = selected(Selector(all=True), read.fleet)
    assert names == ("web-1", "web-2", "web-3", "web-4", "db-1", "db-2", "db-3")
    first, _, later = blocks(read.experiment)[:3]
    assert len(seeds(read, first)) == len(seeds(read, later)) == 1
    assert seeds(read, first) != seeds(read, later)
    drawn = of_first_fault(read, first)
    assert {name for injection in drawn for name in injection.machines} == set(names)
    assert len(most_at_once(drawn, read.fleet)["db"].machines) == 3
    seeded = changed(tmp_path, FLAKY.replace("gap_s = 2", "gap_s = 2, seed = 5"))
    assert seeds(seeded, first) == {5}


def test_peers_are_named_by_machine_or_tier_and_told_by_address(tmp_path: Path) -> None:
    read = changed(tmp_path, SPLIT)
    assert peers_of("web, db-2", "web-1", read.fleet) == ("web-2", "web-3", "web-4", "db-2")
    block = blocks(read.experiment)[0]
    drawn = injections(read.experiment, read.fleet, block, lambda name: f"at-{name}")
    (split,) = (injection for injection in drawn if injection.fault == 0)
    assert split.steps[0].parameters["peers"] == "at-web-2,at-web-3,at-web-4,at-db-2"
    (disturbance,) = (row for row in disturbances(tmp_path) if row["kind"] == "net.partition")
    assert disturbance["parameters"] == {"peers": "web, db-2"}
    assert "web, db-2" in disturbance["commands"]


STICKY = CRASH.replace("for_s = 15.0", "sticky = true")


@pytest.mark.parametrize(
    ("fault", "repeat", "key"),
    [
        (CRASH, '{ distribution = "weekly", gap_s = 5, times_max = 2 }', "repeat.distribution"),
        (CRASH, '{ distribution = "fixed", gap_s = 0, times_max = 2 }', "repeat.gap_s"),
        (CRASH, '{ distribution = "fixed", gap_s = 5, times_max = 1 }', "repeat.times_max"),
        (CRASH, '{ distribution = "fixed", gap_s = 5, times_max = 1001 }', "repeat.times_max"),
        (CRASH, '{ distribution = "fixed", gap_s = 5 }', "repeat.times_max"),
        (CRASH, '{ distribution = "fixed", gap_s = 5, spread_s = 1, times_max = 2 }',
         "repeat.spread_s"),
        (CRASH, '{ distribution = "gaussian", gap_s = 5, times_max = 2 }', "repeat.spread_s"),
        (CRASH, '{ distribution = "gaussian", gap_s = 5, spread_s = -1, times_max = 2 }',
         "repeat.spread_s"),
        (CRASH, '"often"', "repeat"),
        (STICKY, '{ distribution = "fixed", gap_s = 5, times_max = 2 }', "repeat"),
        *((SPLIT.replace("web, db-2", peers), "", "parameters.peers")
          for peers in ("web-9", "", "198.18.0.1", "web-1", "db-1,")),
        *((FLAKY.replace("{ all = true }", select), "", "select")
          for select in ("{ all = false }", '{ all = true, tier = "web" }')),
    ],
)  # fmt: skip
def test_a_fault_that_cannot_be_is_refused_with_its_key(
    tmp_path: Path, fault: str, repeat: str, key: str
) -> None:
    with pytest.raises(InputError) as error:
        changed(tmp_path, f"{fault}repeat = {repeat}\n" if repeat else fault)
    assert f"faults.0.{key}" in str(error.value)
