"""A repeat in trouble: elections, services that do not come back, bases that never end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing, MeasurementFailed
from experiments.kinds.limplock.clients.process import ClientEnded, Clients, Task
from experiments.kinds.limplock.measure import repeat as module
from experiments.kinds.limplock.measure.repeat import Moved
from experiments.kinds.limplock.scenarios import BASE, Scenario
from experiments.tests.limplock_small import (
    A_LEADS,
    B_LEADS,
    PROGRAM,
    Faults,
    Small,
    Three,
    repeat_of,
)

SHORT: dict[str, Any] = {"severities": (10, 100), "crash": False, "window_s_min": 0.1}


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    found = Clients([sys.executable, "-c", PROGRAM], tmp_path / "log")
    yield found
    found.close()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found = Faults()
    monkeypatch.setattr(module, "active_fault", found.held)
    monkeypatch.setattr(module, "_PROBES_BEFORE_S", 0.1)
    monkeypatch.setattr(module, "await_ready", lambda *_: None)
    return found


def runs(clients: Clients) -> int:
    """The number of requests for the row's operation."""
    return sum(lane.task.operation == "set" for lane in clients.lanes)


def test_an_election_in_a_base_makes_its_repeat_begin_anew(clients: Clients) -> None:
    repeat = repeat_of(Three([A_LEADS, A_LEADS, B_LEADS]), clients)
    with pytest.raises(Moved):
        repeat.measure()
    [base] = repeat.windows
    assert (base.limping, base.moved, base.cut) == ("a", True, False)
    assert all(lane.ended is not None for _, lane in repeat.lanes)


@pytest.mark.parametrize("scenario", [Scenario(10.0), Scenario(0.25, "start", 10.0, 0.1)])
def test_a_fault_begins_before_the_operation_or_so_long_after_it(
    scenario: Scenario, clients: Clients, faults: Faults
) -> None:
    after_s: list[float | None] = []

    def begun() -> None:
        started, now = clients.lanes[-1].started, time.monotonic()
        after_s.append(now - started if started else None)

    faults.then = begun
    one = repeat_of(Three([A_LEADS]), clients, scenarios=[scenario], trial_run=False)
    one.measure()
    assert [window.scenario for window in one.windows] == [BASE, scenario.name]
    [after] = after_s
    assert (after is None) == (scenario.start_s is None)
    assert after is None or after >= 0.25


def test_an_election_under_a_fault_is_an_outcome_and_the_next_fault_is_the_new_leader_s(
    clients: Clients, faults: Faults
) -> None:
    system = Three([A_LEADS])
    faults.then = lambda: system.told.__setitem__(0, B_LEADS)
    repeat = repeat_of(system, clients, **SHORT)
    repeat.measure()
    assert [window.moved for window in repeat.windows] == [False, True, False]
    assert [window.limping for window in repeat.windows] == ["a", "a", "b"]
    assert [step.machine for step in faults.steps] == ["a", "b"]
    assert not any(window.cut for window in repeat.windows)


def test_a_run_of_which_nothing_is_kept_comes_first_unless_it_is_left_out(clients: Clients) -> None:
    for trial_run, told in ((True, [A_LEADS, A_LEADS, B_LEADS]), (False, [A_LEADS, B_LEADS])):
        before = runs(clients)
        with pytest.raises(Moved):
            repeat_of(Three(told), clients, trial_run=trial_run).measure()
        assert runs(clients) - before == (2 if trial_run else 1)


@pytest.mark.parametrize("trial_run", [True, False])
def test_where_a_fault_s_traces_cannot_be_mended_services_are_started_anew(
    clients: Clients, faults: Faults, trial_run: bool
) -> None:
    system, testbed = Three([A_LEADS]), Small()
    system.mend_fails = 1
    repeat = repeat_of(system, clients, testbed, trial_run=trial_run, **SHORT)
    repeat.measure()
    _, first, second = repeat.windows
    assert first.whole_after_s is None
    assert second.whole_after_s is not None
    assert {agent.restarts for agent in testbed.agents.values()} == {1}
    assert len(faults.steps) == 2
    # What was started anew is rehearsed before it is compared with a warm base, or it is said.
    assert runs(clients) == (5 if trial_run else 3)
    assert [window.cold for window in repeat.windows] == [False, False, not trial_run]


def test_what_cannot_be_mended_after_a_start_either_ends_the_run(
    clients: Clients, faults: Faults
) -> None:
    system = Three([A_LEADS])
    system.mend_fails = 2
    repeat = repeat_of(system, clients, **SHORT)
    with pytest.raises(MeasurementFailed):
        repeat.measure()
    assert len(faults.steps) == 1


def test_a_service_that_does_not_start_again_ends_its_repeat_and_is_an_outcome(
    clients: Clients, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise EnvironmentMissing("machine a", expected="its service", got="crashed")

    monkeypatch.setattr(module, "await_ready", never)
    system = Three([A_LEADS])
    system.mend_fails = 1
    repeat = repeat_of(system, clients, **SHORT)
    repeat.measure()
    assert [(window.stuck, window.whole_after_s) for window in repeat.windows] == [
        (False, None),
        (True, None),
    ]
    assert repeat.closing == []
    assert len(faults.steps) == 1, "no fault more on what is not whole"


@pytest.mark.parametrize("waits", [True, False])
def test_a_client_that_has_ended_ends_the_run_and_no_service_is_started_anew(
    clients: Clients, faults: Faults, waits: bool
) -> None:
    class Deadly(Three):
        def mend(self, clients: Clients) -> None:
            task = Task("a", "die", "a", 1, 0, 1)
            clients.do(task, 5.0) if waits else clients.start(task)

    testbed = Small()
    repeat = repeat_of(Deadly([A_LEADS]), clients, testbed, **SHORT)
    with pytest.raises(ClientEnded):
        repeat.measure()
    assert len(faults.steps) == 1
    assert {agent.restarts for agent in testbed.agents.values()} == {0}


@pytest.mark.parametrize("trial_run", [True, False])
def test_a_base_after_a_repeat_that_left_services_cold_says_so_unless_it_is_rehearsed(
    clients: Clients, faults: Faults, trial_run: bool
) -> None:
    del faults
    system = Three([A_LEADS])
    more: dict[str, Any] = {**SHORT, "severities": (10,), "trial_run": trial_run}
    first = repeat_of(system, clients, **more)
    system.mend_fails = 1
    first.measure()
    assert first.cold
    second = repeat_of(system, clients, cold=first.cold, **more)
    second.measure()
    assert [window.cold for window in second.windows] == [not trial_run, False]
    assert not second.cold


def test_a_base_that_is_cut_short_ends_its_repeat(clients: Clients, faults: Faults) -> None:
    system, testbed = Three([A_LEADS]), Small()
    system.work = "hang"
    repeat = repeat_of(system, clients, testbed, base_max_s=0.2, **SHORT)
    repeat.measure()
    [base] = repeat.windows
    assert (base.cut, base.moved) == (True, False)
    assert faults.steps == []
    assert any("cut short" in text for text in testbed.said)


def test_influxdb_gets_the_probes_of_base_and_faults_each_once(
    clients: Clients, faults: Faults
) -> None:
    testbed = Small()
    repeat = repeat_of(Three([A_LEADS]), clients, testbed, **SHORT)
    repeat.measure()
    assert len(faults.steps) == 2
    told = [(at, tags["machine"], tags["operation"]) for at, name, tags in testbed.samples]
    assert len(told) == len(set(told))
    for window in repeat.windows:
        within = {machine for at, machine, _ in told if window.start_s <= at <= window.end_s}
        assert within == {"a", "b", "c"}, window.scenario
