"""A repeat in trouble, and operations that go on until a server has died."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from core.errors import EnvironmentMissing, InputError, MeasurementFailed
from experiments.design import load_design
from experiments.kinds.limplock.clients.process import ClientEnded, Clients, Task
from experiments.kinds.limplock.judge.lasting import BIN_S, courses, lasting_figures
from experiments.kinds.limplock.measure import endure as lasting_module
from experiments.kinds.limplock.measure import repeat as module
from experiments.kinds.limplock.measure.blocks import Rows
from experiments.kinds.limplock.measure.endure import OUT_OF_MEMORY, Deaths, Endure
from experiments.kinds.limplock.measure.repeat import Moved
from experiments.kinds.limplock.page.report import scenario_table
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import BASE, Scenario
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import ASKED, ROW, RunInputs, Window
from experiments.record.result import flat
from experiments.tests.limplock_fixture import SLOW_LEADER, Made
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
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    active = Faults()
    monkeypatch.setattr(module, "active_fault", active.held)
    monkeypatch.setattr(module, "_PROBES_BEFORE_S", 0.1)
    monkeypatch.setattr(module, "await_ready", lambda *_: None)
    return active


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
        started_s, now_s = clients.lanes[-1].started, time.monotonic()
        after_s.append(now_s - started_s if started_s else None)

    faults.then = begun
    repeat = repeat_of(Three([A_LEADS]), clients, scenarios=[scenario], trial_run=False)
    repeat.measure()
    assert [window.scenario for window in repeat.windows] == [BASE, scenario.name]
    [delay_s] = after_s
    assert (delay_s is None) == (scenario.start_s is None)
    assert delay_s is None or delay_s >= 0.25


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
    for trial_run, leaders in ((True, [A_LEADS, A_LEADS, B_LEADS]), (False, [A_LEADS, B_LEADS])):
        runs_before = runs(clients)
        with pytest.raises(Moved):
            repeat_of(Three(leaders), clients, trial_run=trial_run).measure()
        assert runs(clients) - runs_before == (2 if trial_run else 1)


@pytest.mark.parametrize("trial_run", [True, False])
def test_where_a_fault_s_traces_cannot_be_mended_services_are_started_anew(
    clients: Clients, faults: Faults, trial_run: bool
) -> None:
    system, testbed = Three([A_LEADS]), Small()
    system.mend_fails = 1
    repeat = repeat_of(system, clients, testbed, trial_run=trial_run, **SHORT)
    repeat.measure()
    _, first_window, second_window = repeat.windows
    assert first_window.whole_after_s is None
    assert second_window.whole_after_s is not None
    assert {agent.restarts for agent in testbed.agents.values()} == {1}
    assert len(faults.steps) == 2
    # Services that were started anew have a trial run before a window, or the window says "cold".
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
    options: dict[str, Any] = {**SHORT, "severities": (10,), "trial_run": trial_run}
    first_repeat = repeat_of(system, clients, **options)
    system.mend_fails = 1
    first_repeat.measure()
    assert first_repeat.cold
    second_repeat = repeat_of(system, clients, cold=first_repeat.cold, **options)
    second_repeat.measure()
    assert [window.cold for window in second_repeat.windows] == [not trial_run, False]
    assert not second_repeat.cold


def test_an_arm_that_comes_again_has_what_its_servers_lost_meanwhile_brought_back(
    clients: Clients,
) -> None:
    """Servers are started anew for each arm; HBase's then hold other regions than before."""
    section, testbed = LimplockSection(rows=("Z3",)), cast(Any, SimpleNamespace(keep=id))
    rows_of_arms = Rows(testbed, section)
    rows_of_arms._clients["new", "zookeeper"] = clients  # as its first repeat left it
    assert rows_of_arms._client_of("new", "zookeeper", Three([A_LEADS]), ()) is clients
    assert [lane.task.operation for lane in clients.lanes] == ["mend"]


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
    samples = [(at_s, tags["machine"], tags["operation"]) for at_s, name, tags in testbed.samples]
    assert len(samples) == len(set(samples))
    for window in repeat.windows:
        machines = {
            machine for at_s, machine, _ in samples if window.start_s <= at_s <= window.end_s
        }
        assert machines == {"a", "b", "c"}, window.scenario


# As PROGRAM, but what has no count goes on until it is stopped.
ENDLESS = PROGRAM.replace('task[1] == "probe"', 'task[1] == "probe" or int(task[2]) == 0')


def test_a_death_is_what_was_not_printed_before_or_a_program_that_ended() -> None:
    printed = {"a": f"x {OUT_OF_MEMORY}", "b": "", "c": ""}
    ended_machines: set[str] = set()
    deaths = Deaths("abc", lambda name: printed[name], lambda name: name in ended_machines)
    deaths.look(1.0)
    assert deaths.died_at == {}
    printed["a"] = "lines of before are gone"
    deaths.look(2.0)
    printed["a"] = f"again {OUT_OF_MEMORY}"
    deaths.look(3.0)
    assert deaths.died_at == {"a": 3.0}
    ended_machines.add("c")
    deaths.look(4.0)
    assert deaths.died_at == {"a": 3.0, "c": 4.0}


def test_an_operation_goes_on_beyond_its_count_until_a_while_after_a_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is 7 of Z3's 7,000; a death is seen in the log, and the window ends by itself long
    before `for_s`."""
    monkeypatch.setattr(module, "active_fault", Faults().held)
    monkeypatch.setattr(module, "_PROBES_BEFORE_S", 0.1)
    monkeypatch.setattr(lasting_module, "_LOOK_S", 0.05)
    looks = {"a": 0}

    def printed(machine: str, lines: int) -> str:
        del lines
        looks[machine] = looks.get(machine, 0) + 1
        return OUT_OF_MEMORY if machine == "a" and looks["a"] > 5 else ""

    testbed = Small()
    testbed.fleet = SimpleNamespace(
        agents=testbed.agents, platform=SimpleNamespace(machine_logs=printed)
    )
    clients = Clients([sys.executable, "-c", ENDLESS], tmp_path / "log")
    try:
        repeat = repeat_of(Three([A_LEADS]), clients, testbed, [Scenario(100.0)], window_s_min=0.1,
                           endure={"for_s": 3000.0, "after_s": 0.3})  # fmt: skip
        repeat.measure()
    finally:
        clients.close()
    base, faulty = repeat.windows
    assert (base.died_s, [*faulty.died_s]) == ({}, ["a"])
    [(_, lane)] = [(purpose, lane) for purpose, lane in repeat.lanes
                   if purpose == ROW and lane.task.count == 0]  # fmt: skip
    assert len(lane.did) > 7
    assert not faulty.cut
    assert faulty.took_s < faulty.length_s


def test_only_rows_over_few_keys_can_go_on() -> None:
    design = load_design("limplock-zookeeper")
    section = LimplockSection(rows=("Z3",), endure=Endure(for_s=60.0))
    with pytest.raises(InputError) as error:
        section.check(design)
    assert str(error.value.place).endswith("limplock.endure")
    LimplockSection(rows=("Z5",), endure=Endure(for_s=60.0)).check(design)


def test_the_design_of_figure_4_is_the_papers_size_on_both_releases() -> None:
    design = load_design("limplock-zookeeper-memory")
    section = design.section(LimplockSection, "limplock")
    [row] = section.chosen_rows()
    assert (row.name, section.count_of(row), section.severities) == ("Z5", 6000, (100,))
    assert section.endure is not None
    assert (section.pace_per_s, section.endure.for_s) == (94, 600)
    assert design.experiment.design.repeats == 3
    generations = {arm.of("ensemble").role["GENERATION"]
                   for arm in design.experiment.arms.values()}  # fmt: skip
    assert generations == {"new", "old"}


def test_what_was_done_over_time_is_told_with_deaths_and_drawn_beside_the_papers() -> None:
    labels = {"a": "leader", "b": "follower-1", "c": "follower-2"}

    def window(scenario: str, start_s: float, end_s: float, **fields: Any) -> Window:
        return Window("new", "Z5", "follower", scenario, 0, "b", "c", labels, start_s, end_s,
                      end_s - start_s, False, {}, False, 0, **fields)  # fmt: skip

    windows = [window("base", 0.0, 64.0), window("100", 100.0, 160.0, died_s={"a": 31.0})]
    inputs = RunInputs(1.0, {"Z5": 6000}, {"Z5": 6.0}, [], [])
    operations = [
        (ROW, "c", "set", 100.0 + k / 90, 100.0 + (k + 0.5) / 90, "ok") for k in range(2700)
    ]
    operations += [(ROW, "c", "set", 131.0, 140.0, "error")]
    found_courses: Any = courses(inputs, windows, pl.DataFrame(operations, ASKED, orient="row"))
    [course] = found_courses
    assert course["base_per_s"] == pytest.approx(6000 / 64)
    assert course["died_s"] == {"leader": 31.0}
    assert len(course["done_per_s"]) == 60 / BIN_S
    assert course["done_per_s"][2] == pytest.approx(90.0, abs=1.0)
    assert set(course["done_per_s"][16:]) == {0.0}
    [figure] = lasting_figures({"courses": [course], "arms": ["new"]})
    paper = rows()["Z5"].paper
    assert paper is not None
    for stretch in paper.course:
        assert f"{stretch.rate_per_s:g}/s {stretch.what}" in figure.caption
    assert figure.drawings["wide"]
    assert lasting_figures({"courses": None, "arms": ["new"]}) == []


def test_a_watch_that_ended_is_not_told_as_a_multiple_of_the_base(tmp_path: Path) -> None:
    result = flat(Made(tmp_path, replace(SLOW_LEADER, timeout_factor=6.0)).result())
    for endures in (False, True):
        for scenario in result["scenarios"]:
            scenario["endures"] = endures
        texts = [row[-1].text for row in scenario_table(result).rows]
        assert any("× the base" in text for text in texts) == (not endures)
        assert any("cut short" in text for text in texts)
