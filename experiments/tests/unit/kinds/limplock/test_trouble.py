"""Limplock's rows in trouble: designs refused, systems that do not settle, clients that die."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import EnvironmentMissing, InputError, MeasurementFailed
from experiments.commands.check import check_design
from experiments.design import load_design
from experiments.design.design import DESIGNS
from experiments.design.injections import HELD_S_MAX
from experiments.kinds.limplock import KIND, dry_run
from experiments.kinds.limplock.clients.process import Clients, Lane, Task
from experiments.kinds.limplock.clients.system import NotStable
from experiments.kinds.limplock.dry_run import check_memory, needed_mb
from experiments.kinds.limplock.measure.node_roles import assign_roles
from experiments.kinds.limplock.measure.repeat import await_whole, until_settled
from experiments.kinds.limplock.page.report import scale_words
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import RunInputs
from experiments.testbed.fleet import await_ready
from experiments.testbed.testbed import Testbed
from experiments.tests.called import call
from experiments.tests.limplock_small import A_LEADS, B_LEADS, Three
from experiments.tests.spec_fixture import refused


@pytest.fixture
def design(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DESIGNS / ZOOKEEPER, tmp_path / "mine"))


ZOOKEEPER, ZONES, IO = "limplock-zookeeper", "danger-zones-zookeeper", "danger-zones-etcd-io"
AXIS, RANGE = 'axis = "slower"', 'axis = "slower", low = 2, high = 1000'


@pytest.mark.parametrize(
    ("name", "was", "now", "key", "said"),
    [
        (ZOOKEEPER, '"Z3"', '"Z33"', "limplock.rows", "Z3"),
        (ZOOKEEPER, '"Z3"', '"F6"', "limplock.rows", "F6"),
        (ZOOKEEPER, '"Z3"', '"Z1"', "limplock.rows", "each row once"),
        (ZOOKEEPER, "scale = 0.25", "severities = []\ncrash = false", "limplock.severities",
         "one at least"),
        (ZOOKEEPER, "scale = 0.25", "severities = [1]", "limplock.severities.0", "greater than 1"),
        (ZOOKEEPER, "scale = 0.25", "scale = 4.0", "limplock.scale", "1"),
        (ZOOKEEPER, "scale = 0.25", "scale = 0.25\nscales = { Z9 = 0.5 }", "limplock.scales", "Z9"),
        (ZOOKEEPER, "scale = 0.25", "scale = 0.25\nscales = { Z3 = 2.0 }", "scales.Z3", "1"),
        (ZOOKEEPER, "timeout_factor = 4.5", "wait_least = 4.5", "limplock.wait_least", ""),
        (ZOOKEEPER, "timeout_factor = 4.5", "timeout_factor = 3.0", "limplock.timeout_factor",
         "more than 3"),
        (ZOOKEEPER, 'rows = ["Z1", "Z2", "Z3", "Z4", "Z5"]', "rows = []", "limplock.rows", "1"),
        (ZONES, AXIS, 'axis = "held"', "search.slower", "a factor"),
        (ZONES, AXIS, 'axis = "slower", slower = 7', "search.slower", "nothing"),
        (ZONES, AXIS, 'axis = "loss"', "search.high", "100"),
        (ZONES, RANGE, 'axis = "held", slower = 7, low = 2, high = 3601', "search.high", "3600"),
        (ZONES, "low = 2", "low = 1", "search.low", "more than 1"),
        (ZONES, "low = 2", "low = 2000", "search.high", "2000"),
        (ZONES, 'rows = ["Z3"]', 'rows = ["Z3", "Z4"]', "limplock.rows", "one"),
        (ZONES, "scale =", "severities = [10]\nscale =", "limplock.severities",
         "nothing beside search"),
        (ZONES, "repeats = 3", "repeats = 2", "limplock.search", "3"),
        (ZONES, AXIS, 'axis = "late"', "search.axis", "io_latency"),
        (ZONES, AXIS, 'axis = "io_latency"', "limplock.search", "disk"),
        (ZONES, RANGE, 'axis = "delay", low = 0.05, high = 9', "search.low", "0.1 ms"),
        (ZONES, RANGE, 'axis = "delay", low = 2, high = 10001', "search.high", "10000 ms"),
        (ZONES, RANGE, 'axis = "loss", low = 0.001, high = 9', "search.low", "0.01 %"),
        (ZONES, AXIS, 'axis = "start", held_s = 2', "search.slower", "a factor"),
        (ZONES, AXIS, 'axis = "start", slower = 7', "search.held_s", "seconds"),
        (ZONES, AXIS, 'axis = "slower", held_s = 7', "search.held_s", "nothing"),
        (ZONES, AXIS, 'axis = "held", slower = 7, held_s = 7', "search.held_s", "nothing"),
        (ZONES, AXIS, 'axis = "delay", slower = 7', "search.slower", "nothing"),
        (ZONES, RANGE, 'axis = "start", slower = 7, held_s = 2, low = 2, high = 3601',
         "search.high", "3600"),
        (IO, "low = 1", "low = 0.05", "search.low", "0.1 ms"),
        (IO, "high = 3000", "high = 600001", "search.high", "600000 ms"),
        (IO, 'axis = "io_latency"', 'axis = "delay"', "limplock.search", "card"),
        (IO, 'STORE_FAULTS = "on"', 'STORE_FAULTS = "off"', "limplock.search", "arm new"),
        (IO, 'STORE_FAULTS = "on"', "ELECTION_MS = 200", "limplock.search", "arm new"),
    ],
)  # fmt: skip
def test_a_design_that_cannot_be_is_refused_with_its_key(
    tmp_path: Path, name: str, was: str, now: str, key: str, said: str
) -> None:
    error = refused(tmp_path, name, was, now)
    assert error.place.endswith(key)
    assert said in str(error)


def test_a_row_has_a_scale_of_its_own_or_that_of_all() -> None:
    section = LimplockSection(rows=("Z1", "Z3"), scale=0.1, scales={"Z3": 0.5})
    assert [section.count_of(row) for row in section.chosen_rows()] == [700, 3500]
    inputs = RunInputs(0.1, {}, {}, [], [], {"Z1": 0.1, "Z3": 0.5})
    assert scale_words(inputs) == "Z1 0.1, Z3 0.5"
    assert scale_words(replace(inputs, scales={"Z1": 0.1})) == "0.1"


def test_nothing_is_waited_for_longer_than_a_fault_may_be_held() -> None:
    section, row = LimplockSection(rows=("Z3",)), rows()["Z3"]
    assert row.timeout_factor * section.base_max_s > HELD_S_MAX
    waited_s = [section.limit_s(row, base_s) for base_s in (0.01, 1.0, section.base_max_s)]
    assert waited_s == [section.window_s_min, row.timeout_factor, HELD_S_MAX]


def test_a_role_that_no_adapter_asks_is_refused(design: Path) -> None:
    role_folder = Path(load_design("limplock-zookeeper").roles["zookeeper"].directory)
    without_adapter = shutil.ignore_patterns("limplock.py")
    shutil.copytree(role_folder, design / "roles" / "zookeeper", ignore=without_adapter)
    with pytest.raises(InputError) as error:
        check_design(load_design(design))
    assert "limplock.py" in error.value.expected


def test_a_kind_with_a_load_of_its_own_needs_no_load_and_another_does(design: Path) -> None:
    check_design(load_design(design))
    text = (design / "experiment.toml").read_text()
    without_section = re.sub(r"\[limplock\].*?\n\n", "", text, flags=re.DOTALL)
    (design / "experiment.toml").write_text(without_section.replace('"limplock"', '"compare"'))
    with pytest.raises(InputError) as error:
        check_design(load_design(design))
    assert error.value.place.endswith("experiment.toml: load")


def test_a_dry_run_says_each_fault_its_machines_and_its_undo() -> None:
    process = call("run", "limplock-zookeeper", "--dry-run")
    assert process.exit_code == 0
    for phrase in ("net.limp", "factor 1000", "process.crash", "ensemble-3",
                   "one machine at a time"):  # fmt: skip
        assert phrase in " ".join(process.output.split())


def test_a_host_with_too_little_memory_is_refused_with_both_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, ensemble_design = SimpleNamespace(available=512 << 20), load_design("limplock-zookeeper")
    monkeypatch.setattr("psutil.virtual_memory", lambda: host)
    with pytest.raises(EnvironmentMissing) as error:
        check_memory(ensemble_design)
    assert error.value.got == "512 MB"
    assert f"{needed_mb(ensemble_design)} MB" in error.value.expected
    assert needed_mb(ensemble_design) == 3 * 384 + 1024
    host.available = needed_mb(ensemble_design) << 20
    check_memory(ensemble_design)


@pytest.mark.parametrize("here", [True, False])
def test_only_a_host_that_is_to_have_the_machines_needs_their_memory(
    monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(dry_run, "check_memory", lambda design: checked.append(design.name))
    platform: Any = SimpleNamespace(on_this_host=here)
    KIND.check_host(load_design("limplock-zookeeper"), LimplockSection(rows=("Z3",)), platform)
    assert checked == ["limplock-zookeeper"] * here


class Printed:
    """A testbed whose machines only print."""

    class fleet:
        class platform:
            @staticmethod
            def machine_logs(machine: str) -> str:
                return f"the last words of {machine}"

        class inventory:
            machines: Sequence[Any] = ()
            arbiters: Sequence[Any] = ()

    design = load_design("limplock-zookeeper")


def test_a_system_that_never_settles_is_refused_with_what_its_machines_printed() -> None:
    class Machine:
        name, tier = "ensemble-1", "ensemble"

    testbed = cast(Testbed, Printed)
    Printed.fleet.inventory.machines = (Machine,)
    system = Three([None])
    with pytest.raises(MeasurementFailed) as error:
        await_whole(testbed, lambda: system.parts(rows()["Z3"]), 0.0)
    assert "the last words of ensemble-1" in error.value.got
    late_system = Three([None, A_LEADS])
    assert until_settled(lambda: late_system.parts(rows()["Z3"]), 5.0) == A_LEADS


def test_a_role_that_does_not_become_ready_is_refused_with_what_its_machine_printed() -> None:
    class Starting:
        """The agent of a machine whose service never becomes ready."""

        def health(self) -> dict[str, Any]:
            return {"service": "running", "ready": False}

    class Ready(Starting):
        def health(self) -> dict[str, Any]:
            return {"service": "running", "ready": True}

    role = SimpleNamespace(ready=SimpleNamespace(timeout_s=0.2))
    roles: Any = {"zookeeper": role}
    platform = SimpleNamespace(
        ready_timeout_s=0.1, machine_logs=lambda name: f"the last words of {name}"
    )
    inventory = SimpleNamespace(machine=lambda _: SimpleNamespace(role="zookeeper"))
    fleet: Any = SimpleNamespace(platform=platform, inventory=inventory)
    agents: Any = {"ensemble-1": Ready(), "ensemble-2": Starting()}
    with pytest.raises(EnvironmentMissing) as error:
        await_ready(fleet, roles, agents)
    assert "ensemble-2" in error.value.place
    assert "running, not ready" in error.value.got
    assert "the last words of ensemble-2" in error.value.got
    await_ready(fleet, roles, {"ensemble-1": agents["ensemble-1"]})


def test_the_node_that_limps_is_found_in_the_system_and_is_not_the_one_that_is_asked() -> None:
    for leads, part, limping in ((A_LEADS, "leader", "a"), (B_LEADS, "leader", "b"),
                                 (A_LEADS, "follower", "b")):  # fmt: skip
        assigned = assign_roles(rows()["Z3"], part, Three([leads]))
        assert assigned.limping == limping
        assert assigned.entry != limping
    with pytest.raises(NotStable):
        assign_roles(rows()["Z3"], "observer", Three([A_LEADS]))


def test_a_client_does_what_it_is_told_and_a_lane_ends_when_it_is_stopped(clients: Clients) -> None:
    clients.do(Task("a", "set", "a", 5, 1, 1), 60.0)
    assert [operation.outcome for operation in clients.lanes[0].did] == ["ok"] * 5
    lane = clients.start(Task("a", "hang", "a", 0, 1, 1))
    clients.stop(lane)
    assert (lane.reason, lane.is_done) == ("stopped", False)
    with pytest.raises(MeasurementFailed):
        clients.do(Task("a", "hang", "a", 5, 1, 1), 0.1)


def test_a_client_that_dies_ends_the_run_with_its_last_words(clients: Clients) -> None:
    lane = clients.start(Task("a", "die", "a", 1, 1, 1))
    assert lane.wait(60.0)
    assert not lane.is_done
    with pytest.raises(MeasurementFailed) as error:
        clients.do(Task("a", "set", "a", 1, 1, 1), 5.0)
    assert "out of memory" in str(error.value)


def test_a_client_that_does_not_start_is_an_environment_that_is_missing(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('no such class')"]
    with pytest.raises(EnvironmentMissing) as error:
        Clients(program, tmp_path / "log")
    assert "no such class" in error.value.got


def test_a_client_is_closed_though_a_child_of_it_holds_its_output(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; subprocess.Popen(['sleep', '3600']); print('ready', flush=True)"
    )
    clients = Clients([sys.executable, "-c", f"{program}; sys.stdin.read()"], tmp_path / "log")
    clients.close()
    with pytest.raises(MeasurementFailed):
        clients.do(Task("a", "set", "a", 1, 1, 1), 60.0)


def test_work_that_no_client_does_is_a_lane_too(clients: Clients) -> None:
    task = Task("a", "balance", "a", 1, 0, 1)

    def fail(halt: threading.Event) -> None:
        del halt
        raise InputError("balance", expected="an end", got="none")

    def wait(halt: threading.Event) -> None:
        halt.wait(600.0)

    done_lane = clients.call(task, threading.Event.clear)
    failed_lane, stopped_lane = clients.call(task, fail), clients.call(task, wait)
    for lane in (done_lane, failed_lane, stopped_lane):
        clients.go(lane)
    assert done_lane.wait(60.0)
    assert failed_lane.wait(60.0)
    clients.stop(stopped_lane)
    lanes: list[Lane] = [done_lane, failed_lane, stopped_lane]
    assert [lane.did[0].outcome for lane in lanes] == ["ok", "error", "timeout"]
    assert [lane.is_done for lane in lanes] == [True, False, False]
