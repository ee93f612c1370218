"""Fail-over on real machines, in trouble: a dry pool, a heartbeat that only seems lost, an end.

One fleet of two web servers and a standby serves all tests but the last two, which run a design.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.runfiles.result import read_result
from experiments.design.failover import Failover, Mechanism
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.record.result import flat
from experiments.testbed.faults import Tally
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.testbed.schemes import Controller, Journal, MachineOperations
from experiments.tests.engine import docker as call_docker
from experiments.tests.fleets import Started, live

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DESIGN = ROOT / "experiments" / "tests" / "designs" / "failover"
EXPERIMENT = "tst-failover"
NODES, STANDBY = ("web-1", "web-2"), "web-3"
_WAIT_S = 120.0


class Events:
    """A journal that keeps its events."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._guard = threading.Lock()

    def event(self, monotonic: float, **line: Any) -> None:
        with self._guard:
            self.lines.append({"at": monotonic, "machine": "", "parameters": None, **line})

    def of(self, what: str, action: str, kind: str | None = None) -> list[dict[str, Any]]:
        with self._guard:
            return [
                line for line in self.lines
                if line["what"] == what and line["action"] == action
                and kind in (None, line["kind"])
            ]  # fmt: skip


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with live(EXPERIMENT, DESIGN / "fleet.tfvars", find_roles()) as live_fleet:
        yield live_fleet


class Scheme:
    """A controller that works on the fleet, and its events."""

    def __init__(self, fleet: Fleet, kind: Mechanism, repair_mean_s: float | None) -> None:
        settings = Failover(heartbeat_s=0.5, misses=3, repair_mean_s=repair_mean_s)
        tiers = dict.fromkeys((*NODES, STANDBY), "web")
        self.operations = MachineOperations(
            fleet.platform,
            {**fleet.agents, **fleet.standbys},
            fleet.arbiters,
            tiers,
            {},
            fleet.settings,
        )
        self.events, self.tally = Events(), Tally()
        self.journal = Journal(self.events.event, self.tally, tiers)
        self.controller = Controller(
            settings, self.operations, self.journal, {"web": kind}, {"web": NODES},
            {"web": (STANDBY,)}, np.random.default_rng(5),
        )  # fmt: skip

    def __enter__(self) -> Scheme:
        self.controller.start(time.monotonic())
        return self

    def __exit__(self, *exception_info: object) -> None:
        self.controller.stop()

    def crash(self, machine: str) -> None:
        self.operations.platform.inject("machine.crash", machine)
        self.journal.note_crash(machine, time.monotonic())

    def until(self, awaited_event: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"no {awaited_event}: {self.events.lines}"
            time.sleep(0.1)


def _states(fleet: Fleet) -> dict[str, bool]:
    return {name: fleet.platform.running(name) for name in (*NODES, STANDBY)}


def _in(fleet: Fleet) -> Mapping[str, bool]:
    servers = fleet.arbiters["web"].stats()["servers"]
    return {server["name"]: server["alive"] for server in servers}


def test_a_standby_is_off_and_out_of_its_arbiter_from_the_start(fleet: Fleet) -> None:
    assert _states(fleet) == {"web-1": True, "web-2": True, "web-3": False}
    assert _in(fleet) == {"web-1": True, "web-2": True, "web-3": False}


def test_a_dry_pool_is_recorded_and_its_fail_over_waits_for_a_repair(fleet: Fleet) -> None:
    with Scheme(fleet, "pf", repair_mean_s=3.0) as scheme:
        scheme.crash("web-1")
        scheme.crash("web-2")
        scheme.until("two fail-overs", lambda: len(scheme.events.of("failover", "end", "pf")) == 2)
        first, second = scheme.events.of("failover", "end", "pf")
        assert scheme.journal.in_service == {
            first["parameters"]["replacement"], second["parameters"]["replacement"],
        }  # fmt: skip
    assert first["parameters"]["replacement"] == STANDBY
    (empty,) = scheme.events.of("failover", "start", "standby_pool_empty")
    (filled,) = scheme.events.of("failover", "end", "standby_pool_empty")
    assert empty["machine"] == filled["machine"] == second["machine"]
    assert second["parameters"]["pool_wait_s"] >= filled["at"] - empty["at"] > 0.0
    parameters = first["parameters"]
    stages = ("detection_s", "told_out_s", "fence_s", "start_s", "readiness_s", "told_s")
    assert all(parameters[stage] > 0.0 for stage in stages), parameters
    whole_s = sum(parameters[name] for name in (*stages, "wait_s", "pool_wait_s", "boot_s"))
    assert whole_s <= parameters["total_s"] + 0.01, "a host may stall between two stages"
    assert parameters["detection_s"] >= 1.0, "three heartbeats of half a second"
    assert (scheme.tally.injected, scheme.tally.reverted) == (2, 2)
    assert scheme.tally.errors == []
    assert _states(fleet) == {"web-1": True, "web-2": True, "web-3": False}, "as before"
    assert _in(fleet) == {"web-1": True, "web-2": True, "web-3": False}


def test_a_machine_that_only_the_heartbeat_lost_is_fenced_and_replaced_once(fleet: Fleet) -> None:
    network, container = f"sc-{EXPERIMENT}-control", f"sc-{EXPERIMENT}-web-1"
    old_identity = _identity(container)
    with Scheme(fleet, "cloud", repair_mean_s=None) as scheme:
        call_docker("network", "disconnect", network, container)
        assert fleet.platform.running("web-1"), "it lives, only nobody hears it"
        scheme.until("a replacement", lambda: bool(scheme.events.of("failover", "end", "cloud")))
        # Long enough for a second loss of the same machine to be detected.
        time.sleep(4.0)
        assert len(scheme.events.of("failover", "start")) == 1
        assert len(scheme.events.of("failover", "end", "cloud")) == 1
        assert scheme.journal.in_service == set(NODES)
    assert _identity(container) != old_identity, "another machine has its name and addresses"
    names = [item.name for item in docker.find(EXPERIMENT) if item.name.endswith("-web-1")]
    assert names == [container], "there is one of it"
    assert scheme.tally.errors == []
    assert LocalPlatform(EXPERIMENT).stack.changes() == [], "and Terraform knows it"


def test_a_machine_that_is_repaired_in_its_place_comes_back(fleet: Fleet) -> None:
    with Scheme(fleet, "ara", repair_mean_s=1.0) as scheme:
        scheme.crash("web-2")
        scheme.until("its return", lambda: bool(scheme.events.of("failover", "end", "ara")))
        (failover,) = scheme.events.of("failover", "end", "ara")
        assert failover["parameters"]["replacement"] == "web-2"
        assert scheme.journal.in_service == set(NODES)
        (repair,) = scheme.events.of("repair", "end")
        assert failover["at"] > repair["at"]
    assert scheme.tally.reverted == 1


def test_a_run_ended_during_a_fail_over_leaves_nothing(tmp_path: Path, fleet: Fleet) -> None:
    fleet.platform.down(print)
    session = Started(tmp_path, "run", str(DESIGN))
    session.until_event(what="failover")
    session.process.send_signal(signal.SIGTERM)
    session.ended(130)
    assert docker.find(EXPERIMENT) == []
    crashes = [event for event in session.events() if event["kind"] == "machine.crash"]
    actions = [event["action"] for event in crashes]
    assert actions.count("inject") == actions.count("revert") > 0, "each was mended first"


def test_a_whole_run_ends_as_it_began_and_tells_its_time_at_full_strength(
    tmp_path: Path, fleet: Fleet
) -> None:
    fleet.platform.down(print)
    Started(tmp_path, "run", str(DESIGN)).ended(0, 1)
    folder = tmp_path / EXPERIMENT / "latest"
    summary = flat(read_result(folder))
    web = summary["strength"]["tiers"]["web"]
    assert web["mechanism"] == "pf"
    assert web["crashes"] == summary["faults"]["by_kind"]["machine.crash"]["injected"] > 0
    assert web["recovery"]["samples"] == len(summary["strength"]["failovers"]) > 0
    assert 0.0 < web["measured"]["share"] < 1.0
    assert summary["faults"]["reverted"] == summary["faults"]["injected"]
    for name in ("injection", "revert", "cleanup"):
        assert summary["verdicts"][name]["ok"], summary["verdicts"]
    assert "Time at full strength" in (folder / "report.html").read_text()
    assert docker.find(EXPERIMENT) == []


def _identity(container: str) -> str:
    return call_docker("inspect", "--format", "{{.Id}}", container)
