"""`[guard] machines_per_tier_max`: refused in a design that goes beyond, held in a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design import load_design
from experiments.design.guard_checks import most_in_any_block
from experiments.design.injections import Injection, Step, injections, most_at_once
from experiments.design.schedule import blocks
from experiments.testbed.blast_radius import BlastRadius
from experiments.testbed.faults import FaultController, Tally
from experiments.tests.spec_fixture import TFVARS, TOML, design, write

TIERS = {"web-1": "web", "web-2": "web", "web-3": "web", "db-1": "db"}
QUIET = TOML.replace('pattern = "both"', 'pattern = "none"')
SAME_TIME = QUIET.replace('machine = "db-2"', 'tier = "web", place = "others"')


def guarded(folder: Path, toml: str, most: int) -> None:
    load_design(write(folder, TFVARS, f"{toml}[guard]\nmachines_per_tier_max = {most}\n"))


def refused(folder: Path, toml: str, most: int) -> InputError:
    with pytest.raises(InputError) as caught:
        guarded(folder, toml, most)
    return caught.value


def test_faults_that_meet_on_a_tier_are_refused_at_the_key(tmp_path: Path) -> None:
    guarded(tmp_path, QUIET, 1)
    guarded(tmp_path, SAME_TIME, 4)
    error = refused(tmp_path, SAME_TIME, 3)
    assert error.place.endswith("guard.machines_per_tier_max")
    assert (error.exit_code, error.got) == (2, "3")
    assert "web-1, web-2, web-3, web-4" in error.expected


def test_neighbours_count_as_drawn_the_far_end_of_a_noisy_pair_too(tmp_path: Path) -> None:
    noisy_design = design(tmp_path)
    machines_by_tier = {
        tier: len(peak.machines)
        for tier, peak in most_in_any_block(noisy_design.experiment, noisy_design.fleet).items()
    }
    limit = max(machines_by_tier.values())
    guarded(tmp_path, TOML, limit)
    refused(tmp_path, TOML, limit - 1)


def test_the_most_at_once_is_that_of_the_worst_moment(tmp_path: Path) -> None:
    noisy_design = design(tmp_path)
    block = blocks(noisy_design.experiment)[0]
    plan = injections(noisy_design.experiment, noisy_design.fleet, block)
    for tier, peak in most_at_once(plan, noisy_design.fleet).items():
        nodes = set(noisy_design.fleet.nodes_of(tier))
        counts = [
            len(nodes & set().union(*(i.machines for i in plan if i.at_s <= at_s < i.end_s)))
            for at_s in [step / 10 for step in range(750)]
        ]
        assert len(peak.machines) >= max(counts)
        machines_at_peak = [i.machines for i in plan if i.at_s <= peak.at_s < i.end_s]
        assert set(peak.machines) == nodes & set().union(*machines_at_peak)


def test_what_only_touches_does_not_overlap(tmp_path: Path) -> None:
    fleet = design(tmp_path).fleet
    first_injection = Injection(0.0, 5.0, "fault", (Step("cpu.limp", "web-1"),))
    second_injection = Injection(5.0, 5.0, "fault", (Step("cpu.limp", "web-2"),))
    assert len(most_at_once([first_injection, second_injection], fleet)["web"].machines) == 1


def test_crashes_that_are_drawn_for_every_machine_need_room_for_all(tmp_path: Path) -> None:
    crashing = (
        QUIET.split("[[faults]]")[0]
        + "[arms"
        + QUIET.split("[arms", 1)[1]
        + '[failover]\ncrash_mean_s = 60.0\ntiers = ["web"]\n'
    )
    guarded(tmp_path, crashing, 4)
    assert "crash_mean_s" in refused(tmp_path, crashing, 3).expected


def test_a_guard_that_could_never_see_enough_requests_is_refused(tmp_path: Path) -> None:
    text = f"{QUIET}[guard]\np99_ms_max = 100.0\nwindow_s = 10.0\nrequests_min = 51\n"
    with pytest.raises(InputError) as caught:
        load_design(write(tmp_path, TFVARS, text))
    assert caught.value.place.endswith("guard.requests_min")
    load_design(write(tmp_path, TFVARS, text.replace("51", "50")))


def test_a_machine_counts_once_and_others_tiers_do_not() -> None:
    radius = BlastRadius(TIERS, 2)
    assert radius.take(["web-1"])
    assert radius.take(["web-1", "db-1"])
    assert radius.take(["web-2", "influxdb"])
    assert not radius.take(["web-3"])
    assert radius.take(["influxdb"])
    radius.give(["web-1"])
    assert not radius.take(["web-3"]), "the other injection holds web-1 still"
    radius.give(["web-1", "db-1"])
    assert radius.take(["web-3"])
    assert radius.disturbed == {"web-2", "web-3", "influxdb"}


def test_all_or_none_of_an_injections_machines_are_taken() -> None:
    radius = BlastRadius(TIERS, 1)
    assert not radius.take(["web-1", "web-2"])
    assert radius.disturbed == frozenset()


class _Agent:
    """An agent that notes active faults; those of a `stuck` one cannot be undone."""

    def __init__(self, name: str, active: set[str], counts: list[int], stuck: bool) -> None:
        self._name, self._active, self._seen, self._stuck = name, active, counts, stuck

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        del parameters, lease_s
        self._active.add(self._name)
        self._seen.append(len(self._active))
        return f"{kind}@{self._name}"

    def renew(self, fault: str, lease_s: float) -> None:
        """Nothing ends by itself here."""

    def revert(self, fault: str) -> dict[str, Any]:
        del fault
        if self._stuck:
            raise EnvironmentMissing(self._name, expected="success", got="500", hint="Nothing.")
        self._active.discard(self._name)
        return {}


class _Platform:
    through_agent: Mapping[str, str] = {}

    def inject(self, kind: str, machine: str) -> None:
        raise AssertionError(kind, machine)

    revert = inject


def held(
    plan: list[Injection], until: tuple[str, str], stuck: str = ""
) -> tuple[list[tuple[str, str]], list[int], Tally]:
    """Run a controller until the event `until` comes.

    Returns actions with their machines, the number of disturbed machines at each injection, and
    the tally.
    """
    events: list[tuple[str, str]] = []
    counts: list[int] = []
    active: set[str] = set()
    stop = threading.Event()

    def log(_: float, **event: Any) -> None:
        events.append((event["action"], event["machine"]))
        if events[-1] == until:
            stop.set()

    agents = {name: _Agent(name, active, counts, name == stuck) for name in TIERS}
    tally = Tally()
    controller = FaultController(
        cast(Any, agents), cast(Any, _Platform()), log, tally, BlastRadius(TIERS, 1)
    )
    controller.run(plan, time.monotonic(), 60.0, stop)
    return events, counts, tally


def limp(machine: str, at_s: float, duration_s: float | None) -> Injection:
    return Injection(at_s, duration_s, "fault", (Step("cpu.limp", machine),))


def test_an_injection_waits_until_there_is_room() -> None:
    plan = [limp("web-1", 0.0, 0.2), limp("web-2", 0.1, 50.0), limp("db-1", 0.0, 50.0)]
    events, counts, tally = held(plan, ("inject", "web-2"))
    assert events.index(("revert", "web-1")) < events.index(("inject", "web-2"))
    assert max(counts) == 2, "one of each tier"
    assert (tally.injected, tally.reverted, tally.errors) == (3, 3, [])


def test_an_injection_for_which_there_never_is_room_is_an_error() -> None:
    plan = [limp("web-1", 0.0, None), limp("web-2", 0.05, 0.1)]
    events, counts, tally = held(plan, ("error", "web-2"))
    assert ("inject", "web-2") not in events
    assert counts == [1]
    assert "machines_per_tier_max" in tally.errors[0]


def test_a_machine_that_could_not_be_healed_keeps_its_place() -> None:
    plan = [limp("web-1", 0.0, 0.05), limp("web-2", 0.1, 0.3)]
    events, _, tally = held(plan, ("error", "web-2"), stuck="web-1")
    assert ("inject", "web-2") not in events
    assert len(tally.errors) == 2
