"""`[guard]` and `sparecraft halt`: what ends a run, what is undone then, and what is kept."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from core.errors import EnvironmentMissing
from core.runfiles.events import read_events
from experiments.console import Narrator
from experiments.design import Design, load_design
from experiments.design.experiment import Fault, Interference, Phases, Selector
from experiments.design.guard import Guard
from experiments.design.inventory import Endpoints, Entry, Inventory
from experiments.design.schedule import Block
from experiments.design.workloads import Operation, Population, Workload
from experiments.load.generator import LoadGenerator
from experiments.record.recorder import Clock, Recorder
from experiments.record.records import RequestRecord
from experiments.record.telemetry import Account, InfluxWriter
from experiments.run.block import BlockRun
from experiments.testbed import monitor as monitors
from experiments.testbed import runs
from experiments.testbed.faults import Tally
from experiments.testbed.guard import GuardWatch, Stop, Stopped, Unready, stopped_json
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.monitor import Monitor
from experiments.tests.called import answer, call, refusal
from experiments.tests.counting import SMALL, Counting, stopped
from experiments.tests.fake_fleet import machine
from experiments.tests.servers import Server
from experiments.tests.started import until

PATIENCE_S = 60.0


def record(outcome: str = "ok", latency_ms: float | None = 10.0) -> RequestRecord:
    return RequestRecord(
        phase="measure", index=0, name="page", intended_s=0.0, sent_s=0.0, done_s=0.0,
        latency_ms=latency_ms, lag_ms=0.0, outcome=outcome, status=200, bytes=1,
    )  # fmt: skip


def stop_of(
    guard: Guard, *seconds: tuple[float, list[RequestRecord]],
    unready: Mapping[str, Unready] | None = None, disturbed: tuple[str, ...] = (),
    healed: Mapping[str, float] | None = None,
) -> Stop | None:  # fmt: skip
    """The guard's answers to requests that came at these times."""
    watch = GuardWatch(guard, 100.0, 6000.0)
    try:
        for now, records in seconds:
            watch.requests(100.0 + now, records)
            watch.look(100.0 + now, unready or {}, disturbed, healed or {})
    except Stopped as stopped:
        return stopped.stop
    return None


pytestmark = pytest.mark.usefixtures("own_runs")

FAILED = [record("bad_status")] * 6 + [record()] * 14


SLOW = [record(latency_ms=900.0)] * 30
REFUSED = [record("connection_error", 0.03)] * 6 + [record()] * 14


@pytest.mark.parametrize(
    ("guard", "records", "condition"),
    [
        (Guard(error_share_max=0.25), FAILED, "error_share_max"),
        (Guard(error_share_max=0.3), FAILED, None),
        (Guard(p99_ms_max=800.0), SLOW, "p99_ms_max"),
        (Guard(p99_ms_max=1000.0), SLOW, None),
        # What failed at once is in p99 at the time-out.
        (Guard(p99_ms_max=5999.0), REFUSED, "p99_ms_max"),
        (Guard(p99_ms_max=6000.0), REFUSED, None),
        *((Guard(error_share_max=0.5), [record(outcome, None)] * 20, "error_share_max")
          for outcome in ("dropped", "time_out", "connection_error")),
        # What the load worker lost says nothing of the service, nor do few requests.
        (Guard(error_share_max=0.0), [record("lost", None)] * 50, None),
        (Guard(error_share_max=0.0, p99_ms_max=1.0), [record("time_out")] * 19, None),
        (Guard(error_share_max=0.0, p99_ms_max=1.0), [record("time_out")] * 20, "error_share_max"),
        (Guard(), [record("time_out", 9e9)] * 99, None),
    ],
)  # fmt: skip
def test_too_many_failed_requests_or_too_long_a_p99_end_the_run(
    guard: Guard, records: list[RequestRecord], condition: str | None
) -> None:
    stop = stop_of(guard, (1.0, records))
    assert (stop and stop.condition) == condition
    assert stop is None or (stop.by, stop.at_monotonic) == ("guard", 101.0)


def test_the_reason_has_how_requests_failed() -> None:
    failed = [record("time_out", 6000.0)] * 12 + [record("bad_status")] * 3 + [record()] * 5
    stop = stop_of(Guard(error_share_max=0.5), (1.0, failed))
    assert stop is not None
    assert "time_out 12, bad_status 3" in stop.reason


def test_the_reason_has_what_answers_lacked() -> None:
    lacking = {**record("bad_content"), "reason": "no token"}
    stop = stop_of(Guard(error_share_max=0.5), (1.0, [lacking] * 20))  # type: ignore[list-item]
    assert stop is not None
    assert "bad_content: no token 20" in stop.reason


def test_what_is_older_than_the_window_is_forgotten() -> None:
    guard = Guard(error_share_max=0.25, window_s=5.0)
    assert stop_of(guard, (0.5, FAILED), (6.0, [record()] * 30)) is None
    assert stop_of(guard, (0.5, FAILED), (5.0, [record()])) is not None


def test_a_machine_that_nobody_disturbs_and_is_down_ends_the_run() -> None:
    guard, look = Guard(down_s_max=10.0), (30.0, [record()])
    down = {"web-1": Unready(105.0, 116.0)}
    stop = stop_of(guard, look, unready=down)
    assert stop is not None
    assert stop.condition == "down_s_max"
    assert stop.reason.startswith("web-1 ")
    assert stop_of(guard, look, unready={"web-1": Unready(105.0, 114.0)}) is None
    assert stop_of(guard, look, unready=down, disturbed=("web-1",)) is None
    assert stop_of(guard, look, unready=down, healed={"web-1": 107.0}) is None
    before = {"web-1": Unready(50.0, 109.0)}  # restarted for its arm, before the block
    assert stop_of(guard, look, unready=before) is None
    assert stop_of(Guard(), look, unready=down) is None


def test_how_long_faults_took_to_be_undone_is_taken_from_the_events() -> None:
    clock = Clock(100.0, datetime.now(UTC))
    events = [{"action": "revert", "time_s": at_s} for at_s in (3.0, 21.5, 20.4)]
    stop = Stop("guard", "p99_ms_max", "slow", 120.0)
    assert stopped_json(stop, clock, events)["undone_after_s"] == 1.5
    assert stopped_json(stop, clock, events[:1])["undone_after_s"] == 0.0
    assert stopped_json(stop, clock, [])["at_s"] == 20.0


class _Agent:
    """A machine in memory: what is injected, whether its service is ready."""

    def __init__(self) -> None:
        self.ready: bool | None = True
        self.active: set[str] = set()
        self.injected = threading.Event()

    def health(self) -> dict[str, Any]:
        if self.ready is None:
            raise EnvironmentMissing("web-1", expected="an answer", got="none", hint="Wait.")
        return {"ready": self.ready}

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        del parameters, lease_s
        self.active.add(kind)
        self.injected.set()
        return kind

    def renew(self, fault: str, lease_s: float) -> None:
        """Nothing ends by itself here."""

    def revert(self, fault: str) -> dict[str, Any]:
        self.active.discard(fault)
        return {}


def _ignored(*_: object) -> None:
    """The monitor's answer."""


def test_an_arbiter_that_was_started_again_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "_POLL_S", 0.001)
    names: list[str] = []
    polled = threading.Event()
    uptimes_s = iter([5.0, 6.0, 0.5, 1.5])

    def stats() -> dict[str, Any]:
        if (uptime_s := next(uptimes_s, None)) is None:
            polled.set()
            raise EnvironmentMissing("arbiter", expected="an answer", got="none", hint="Wait.")
        return {"uptime_s": uptime_s}

    arbiters = cast(Any, {"web": SimpleNamespace(stats=stats)})
    watching = Monitor(arbiters, {}, _ignored, _ignored, names.append)
    watching.start()
    assert polled.wait(PATIENCE_S)
    watching.stop()
    assert names == ["web"]


@pytest.mark.parametrize("state", [False, None], ids=["not ready", "no answer"])
def test_the_monitor_says_since_when_a_machine_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, state: bool | None
) -> None:
    monkeypatch.setattr(monitors, "_POLL_S", 0.01)
    agent = _Agent()
    watching = Monitor({}, cast(Any, {"web-1": agent}), _ignored, _ignored, _ignored)
    watching.start()
    try:
        assert watching.unready == {}
        agent.ready = state
        until("sight of it", lambda: "web-1" in watching.unready)
        first = watching.unready["web-1"].first
        until("second sight of it", lambda: watching.unready["web-1"].last > first)
        assert watching.unready["web-1"].first == first
        agent.ready = True
        until("readiness", lambda: watching.unready == {})
    finally:
        watching.stop()


# A block of load at a server that fails every request, a fault active.


def failing(guard: Guard) -> Design:
    design = load_design(SMALL)
    limp = Fault(kind="net.limp", select=Selector(machine="db-1"), at_s=0.0, sticky=True,
                 parameters={"factor": 10.0})  # fmt: skip
    experiment = design.experiment.model_copy(
        update={"load": design.experiment.load.model_copy(update={"rate_per_s": 50.0}),
                "phases": Phases(warm_up=0.0, measure=600.0),
                "interference": Interference(pattern="none"), "faults": (limp,), "guard": guard}
    )  # fmt: skip
    population = Population((Operation("fails", "/fails", "Abash"),), zipf=0.8)
    workload = Workload(lambda: population, ("mediawiki",))
    return replace(design, experiment=experiment, workloads={"wiki-reader": workload})


class _Quiet:
    """Stands in for arbiters and the platform: it accepts every setting."""

    through_agent: Mapping[str, str] = {}

    def cpu_s(self) -> Mapping[str, float]:
        """None of them is a process of this host."""
        return {}

    def set_policy(self, policy: str, tokens: int | None, look_ahead: int | None) -> None:
        """Accept the setting."""

    def set_replicas(self, replicas: int) -> None:
        """Accept the setting."""

    def set_compare(self, mode: str) -> None:
        """Accept the setting."""


class _Watching:
    """A monitor with given unready machines, shown once the fault is in: no guard trips before."""

    def __init__(self, unready: Mapping[str, Unready], injected: threading.Event) -> None:
        self._unready, self._injected = unready, injected

    @property
    def unready(self) -> Mapping[str, Unready]:
        assert self._injected.wait(PATIENCE_S)
        return self._unready


@pytest.fixture
def server() -> Iterator[Server]:
    http_server = Server()
    yield http_server
    http_server.close()


@dataclass(frozen=True)
class _Staged:
    """A run of blocks on a fleet in memory; InfluxDB is away, so that points are spooled."""

    run: BlockRun
    agents: Mapping[str, _Agent]
    writer: InfluxWriter

    def told(self, folder: Path) -> list[str]:
        """Close the run and return the points that it spooled."""
        self.run.recorder.close()
        self.writer.close(1.0)
        return (folder / "telemetry.lp").read_text().splitlines()


def _staged(
    folder: Path, server: Server, design: Design, unready: Mapping[str, Unready]
) -> _Staged:
    machines = tuple(
        machine(name, tier, design.fleet.tiers[tier].role)
        for tier in design.fleet.tiers
        for name in design.fleet.nodes_of(tier)
    )
    ends = Endpoints(
        entries=(Entry(tier="web", protocol="http", urls=(server.url,)),),
        influxdb="http://127.0.0.1:9", grafana=None,
    )  # fmt: skip
    inventory = Inventory(
        experiment="tst", platform="local", scheme="on-prem", machines=machines, endpoints=ends
    )
    agents = {node.name: _Agent() for node in machines}
    arbiters = {tier: _Quiet() for tier in design.fleet.arbiters}
    fleet = Fleet(
        cast(Any, _Quiet()), inventory, ends.influxdb, cast(Any, agents), cast(Any, arbiters)
    )
    clock = Clock(time.monotonic(), datetime.now(UTC))
    writer = InfluxWriter(ends.influxdb, folder / "telemetry.lp")
    recorder = Recorder(folder, clock, "tst", "run", writer, Account({"p95_ms": 5.0}))
    run = BlockRun(
        design, fleet, recorder,
        cast(Monitor, _Watching(unready, agents["db-1"].injected)),
        LoadGenerator(folder / "load", t0_monotonic_s=clock.monotonic), Tally(),
    )  # fmt: skip
    return _Staged(run, agents, writer)


@pytest.mark.parametrize(
    ("guard", "unready", "condition"),
    [
        (Guard(error_share_max=0.5, window_s=5.0), {}, "error_share_max"),
        (Guard(down_s_max=1.0), {"web-2": Unready(0.0, 1e12)}, "down_s_max"),
    ],
)
def test_a_block_that_its_guard_stops_undoes_its_faults_and_keeps_its_requests(
    tmp_path: Path, server: Server, guard: Guard, unready: Mapping[str, Unready], condition: str,
) -> None:  # fmt: skip
    design = failing(guard)
    staged = _staged(tmp_path, server, design, unready)
    run, tally = staged.run, staged.run.tally
    with pytest.raises(Stopped) as caught:
        run.run(Block(0, 0, "baseline", 7), Narrator(Console(file=io.StringIO())))
    staged.told(tmp_path)
    assert caught.value.stop.condition == condition
    assert caught.value.exit_code == 1
    assert not any(agent.active for agent in staged.agents.values())
    assert (tally.injected, tally.reverted, tally.errors) == (1, 1, [])
    assert run.handles[0].records().height > 0
    stop_json = stopped_json(
        caught.value.stop, run.recorder.clock, read_events(tmp_path / "events.jsonl")
    )
    assert stop_json["undone_after_s"] > 0


def test_a_block_that_ends_tells_the_limits_and_what_its_arm_came_to(
    tmp_path: Path, server: Server
) -> None:
    design = failing(Guard())
    experiment = design.experiment.model_copy(update={"phases": Phases(warm_up=0.0, measure=2.0)})
    staged = _staged(tmp_path, server, replace(design, experiment=experiment), {})
    staged.run.run(Block(0, 0, "baseline", 7), Narrator(Console(file=io.StringIO())))
    lines = staged.told(tmp_path)
    assert "slo" in {line.split(",")[0] for line in lines}
    [verdict] = [line for line in lines if "what=verdict" in line]
    assert "kind=baseline" in verdict
    assert "baseline: SLO missed" in verdict
    requests = [line for line in lines if line.startswith("request,")]
    assert requests
    assert all("burn_p95=20.0" in line for line in requests), "each of them failed"


# Runs that go on, and `sparecraft halt`.


def test_a_run_that_its_guard_ends_is_kept_not_valid_and_says_why(tmp_path: Path) -> None:
    def trip() -> None:
        raise Stopped(Stop("guard", "p99_ms_max", "p99 900 ms, limit 800", time.monotonic()))

    error, result = stopped(Counting(trip), tmp_path)
    assert error.exit_code == 1
    assert str(tmp_path) in error.hint
    assert result["valid"] is False
    assert result["counting"] == {"counted": 3}
    assert (result["stopped"]["by"], result["stopped"]["condition"]) == ("guard", "p99_ms_max")
    (reason,) = result["verdicts"]["measurement"]["reasons"]
    assert "stopped by guard" in reason


def test_halt_ends_a_run_and_its_reason_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments.cli", "halt", "--reason", "too hot"]
    halts: list[subprocess.Popen[str]] = []

    def from_another_terminal() -> None:
        halts.append(subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True))
        time.sleep(PATIENCE_S)  # the signal ends it

    error, result = stopped(Counting(from_another_terminal), tmp_path)
    output, _ = halts[0].communicate(timeout=PATIENCE_S)
    assert [run["experiment"] for run in json.loads(output)["halted"]] == ["tst-small"]
    assert halts[0].returncode == 0
    assert error.exit_code == 1
    assert (result["stopped"]["by"], result["stopped"]["reason"]) == ("halt", "too hot")
    assert 0 <= result["stopped"]["at_s"] < PATIENCE_S
    assert runs.active() == []


@pytest.mark.parametrize("named", [(), ("tst-small",), ("small",)])
def test_a_run_is_halted_by_its_experiment_or_its_design(
    monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    pids: list[int] = []
    monkeypatch.setattr(runs, "halt", lambda active, _reason: pids.extend(r.pid for r in active))
    with runs.registered(runs.Active(1, "tst-small", "small", "", "")):
        assert call("halt", *named).exit_code == 0
    assert pids == [1]


def test_halting_a_name_that_does_not_run_is_wrong_usage(own_runs: Path) -> None:
    assert refusal("halt", "shop").exit_code == 2
    assert answer("halt", "--reason", "x")["halted"] == []
    assert not own_runs.exists()


def test_only_the_run_that_is_meant_is_told(own_runs: Path) -> None:
    run = runs.Active(1, "shop", "shop", "", "")  # never signalled: another is named
    with runs.registered(run) as registered_run:
        assert runs.read_halt(registered_run) is None
        assert refusal("halt", "wiki", "--reason", "x").exit_code == 2
        assert runs.read_halt(registered_run) is None
    assert list(own_runs.glob("*.json")) == []
