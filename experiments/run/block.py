"""One block: one arm's configuration, load, interference and faults, all ended at its end."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl

from core.runfiles.events import DISCARDED
from core.runfiles.requests import measured
from core.statistics.percentiles import time_out_ms
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.contracts import MACHINE_KINDS
from experiments.design.experiment import Experiment, Load, Phases
from experiments.design.injections import injections
from experiments.design.inventory import Inventory
from experiments.design.roles import Session
from experiments.design.schedule import Block, pair_seed
from experiments.design.workloads import Workload
from experiments.load.generator import LoadGenerator, LoadHandle, LoadStatus
from experiments.load.plan import LoadPlan, plan_block
from experiments.load.tls import UNCHECKED, tls_of
from experiments.record.disturbed import disturbance, disturbed_words, undecided
from experiments.record.metrics.bootstrap import correlated_s
from experiments.record.metrics.slo import slo_verdict
from experiments.record.recorder import Recorder
from experiments.record.records import RequestRecord
from experiments.testbed.blast_radius import BlastRadius
from experiments.testbed.faults import FaultController, Tally
from experiments.testbed.guard import GuardWatch
from experiments.testbed.host import HostBlock, HostWatch, wait_until_quiet
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.monitor import Monitor
from experiments.testbed.schemes.running import running_scheme
from experiments.testbed.settings import configure

SETTLING = -1  # the number of the block before the first
_LEAD_S = 0.5  # between the order to begin and the block's second 0
_DRAIN_S = 2.0  # beyond the time-outs, for the generator's own end
_TICK_S = 0.25

Onlooker = Callable[[LoadPlan, float, Sequence[RequestRecord]], None]
"""Called a few times a second: the block's plan, the time since its start [s], the new records."""


def entries_for(
    workload: Workload, design: Design, inventory: Inventory
) -> dict[str, tuple[str, ...]]:
    """Return the URLs by entry tier, first those of the roles that the workload is for."""
    tiers, entries = design.fleet.tiers, inventory.endpoints.entries
    ordered = sorted(entries, key=lambda entry: tiers[entry.tier].role not in workload.roles)
    sessions = {tier: design.roles[tiers[tier].role].session for tier in design.fleet.entry_tiers}
    secure = design.experiment.load.tls_name is not None
    return {
        entry.tier: tuple(
            with_tls(url) if secure else with_session(url, sessions[entry.tier])
            for url in entry.urls
        )
        for entry in ordered
    }


def with_tls(url: str) -> str:
    """Return the URL of an entry that passes https on."""
    return urlsplit(url)._replace(scheme="https").geturl()


def _progress_text(plan: LoadPlan, status: LoadStatus) -> str:
    """Return the progress of the load; a task of a Locust file makes any number of requests."""
    if plan.locustfile is not None:
        return f"{status.recorded:,} requests"
    return f"{status.recorded:,}/{status.planned:,} requests"


def with_session(url: str, session: Session | None) -> str:
    """Return the URL with the account that callers of a role have, if it has one."""
    if session is None:
        return url
    parts = urlsplit(url)
    account = f"{quote(session.user, safe='')}:{quote(session.password, safe='')}"
    database = f"/{quote(session.database, safe='')}"
    return parts._replace(netloc=f"{account}@{parts.netloc}", path=database).geturl()


@dataclass
class BlockRun:
    """Runs blocks. `handles` has the records of each block, however it ended, and `host` the use of
    its host; `discarded` has the records of the blocks that were set aside."""

    design: Design
    fleet: Fleet
    recorder: Recorder
    monitor: Monitor
    generator: LoadGenerator
    tally: Tally
    quiet_wait_s: float = 0.0
    handles: list[LoadHandle] = field(default_factory=list)
    discarded: list[LoadHandle] = field(default_factory=list)
    host: list[HostBlock] = field(default_factory=list)
    _healed: dict[str, float] = field(default_factory=dict)
    _measured_requests: dict[Block, pl.DataFrame] = field(default_factory=dict)

    @functools.cached_property
    def _radius(self) -> BlastRadius:
        """Return the radius of the run, which keeps machines that could not be healed."""
        fleet = self.design.fleet
        tiers = {name: tier for tier in fleet.tiers for name in fleet.nodes_of(tier)}
        return BlastRadius(tiers, self.design.experiment.guard.machines_per_tier_max)

    def run(
        self,
        block: Block,
        narrator: Narrator,
        experiment: Experiment | None = None,
        onlooker: Onlooker | None = None,
    ) -> None:
        """Configure, load, disturb; everything that was injected is reverted when this returns.

        Parameters: experiment, used instead of the design's, with the design's arms; onlooker,
        which follows the block and must return quickly.
        """
        waited_s = wait_until_quiet(self.quiet_wait_s, self.fleet.platform.cpu_s)
        if waited_s > 0.0:
            narrator.detail(f"waited {waited_s:.0f} s for a quiet host")
        configure(self.design, block.arm, self.fleet)
        block_experiment = experiment or self.design.experiment
        design = replace(self.design, experiment=block_experiment)
        workload = self.design.workloads[block_experiment.load.user]
        entries = entries_for(workload, self.design, self.fleet.inventory)
        tls = tls_of(block_experiment.load, self.design.directory, block_experiment.load.tls_name)
        plan = replace(plan_block(entries, block_experiment, block, workload), tls=tls)
        if tls is not None and tls.insecure:
            narrator.say(UNCHECKED)
        self.recorder.block = block
        handle = self.generator.start(plan)
        self.handles.append(handle)
        stop = threading.Event()
        controller = FaultController(
            self.fleet.agents, self.fleet.platform, self._on_fault, self.tally, self._radius
        )
        try:
            handle.wait_ready()
            watch = HostWatch(self.fleet.platform.cpu_s)
            origin = time.monotonic() + _LEAD_S
            worker = threading.Thread(
                target=controller.run,
                args=(
                    injections(block_experiment, design.fleet, block, self._address),
                    origin,
                    plan.length_s,
                    stop,
                ),
                name="faults",
            )
            worker.start()
            try:
                with running_scheme(design, block, self.fleet, self.recorder, self.tally, origin):
                    try:
                        handle.go(self.recorder.clock.since_s(origin))
                        self._follow(handle, block, origin, narrator, watch, onlooker)
                    finally:  # before a scheme mends its machines, which may take a minute
                        stop.set()
                        worker.join()
            finally:
                stop.set()
                worker.join()
                self.host.append(watch.block(block, waited_s))
        finally:
            handle.stop()
            self.recorder.requests(block, handle.poll().records)
            self.recorder.block = None
        if experiment is None:
            self._judge(block, measured(handle.records()))

    def _judge(self, block: Block, requests: pl.DataFrame) -> None:
        """Send InfluxDB the arm's verdict so far."""
        self._measured_requests[block] = requests
        frame = pl.concat(
            [
                records
                for earlier, records in self._measured_requests.items()
                if earlier.arm == block.arm
            ]
        )
        experiment = self.design.experiment
        block_s = correlated_s({"spec": {"interference": vars(experiment.interference)}})
        slo = experiment.slo.model_dump(mode="json")
        verdict: Mapping[str, Any] = slo_verdict(frame, [block.arm], slo, block_s=block_s)
        disturbed = disturbance([vars(host) for host in self.host if host.arm == block.arm])
        if disturbed:
            verdict = undecided(verdict, disturbed_words(disturbed)) or verdict
        self.recorder.verdict(time.monotonic(), block.arm, verdict["met"], verdict["reasons"])

    def settle(self, narrator: Narrator) -> None:
        """Send the design's load without neighbours and faults, if the design asks for that. Only
        its events are kept."""
        experiment = self.design.experiment
        if experiment.phases.settle == 0.0:
            return
        phases = experiment.phases.model_copy(
            update={"warm_up": experiment.phases.settle, "measure": 0.0}
        )
        self.calm(SETTLING, narrator, experiment.load, phases)

    def calm(self, number: int, narrator: Narrator, load: Load, phases: Phases) -> LoadHandle:
        """Send load without neighbours and faults to the first arm, and return its records. The
        run keeps only its events.

        Parameters: number of the block, below 0.
        """
        experiment = self.design.experiment
        seed = pair_seed(experiment.design.seed, number)
        block = Block(number, number, next(iter(experiment.arms)), seed)
        self.run(block, narrator, experiment.undisturbed(load=load, phases=phases))
        self.set_aside(block, "before the first block")
        self.host.pop()
        return self.discarded.pop()

    def set_aside(self, block: Block, reason: str) -> None:
        """Set the last block's records aside, so that they count for nothing."""
        self.recorder.block = block
        self.recorder.event(
            time.monotonic(), what="block", kind=block.arm, action=DISCARDED, text=reason
        )
        self.recorder.block = None
        self.discarded.append(self.handles.pop())
        self._measured_requests.pop(block, None)
        self.host[-1] = replace(self.host[-1], spoiled=reason)

    def _follow(
        self,
        handle: LoadHandle,
        block: Block,
        origin: float,
        narrator: Narrator,
        watch: HostWatch,
        onlooker: Onlooker | None,
    ) -> None:
        """Write live samples to InfluxDB and phases to the event log until the load is done."""
        windows = [(window.start_s, window.end_s, window.phase) for window in handle.plan.windows]
        marks = sorted(
            [(start, 1, "start", phase) for start, _, phase in windows]
            + [(end, 0, "end", phase) for _, end, phase in windows]
        )
        length_s, load = handle.plan.length_s, handle.plan.load
        limit_s = length_s + handle.plan.drain_s + _DRAIN_S
        self.recorder.event(origin, what="arm", kind=block.arm, action="start")
        title = f"  block {block.repeat + 1}: {block.arm}, {load.user} at {load.rate_per_s:g}/s"
        if block.repeat < 0:
            label = "settling" if block.repeat == SETTLING else "calibrating"
            title = f"  {label}, {length_s:g} s without neighbours at {load.rate_per_s:g}/s"
        self.recorder.accounts(origin, block, begins=True)
        guard = GuardWatch(
            self.design.experiment.guard,
            origin,
            time_out_ms(load.connect_timeout_s, load.response_timeout_s),
        )
        with narrator.bar(title, length_s) as show:
            while True:
                now_s = time.monotonic() - origin
                while marks and marks[0][0] <= now_s:
                    at_s, _, action, phase = marks.pop(0)
                    self.recorder.event(origin + at_s, what="phase", kind=phase, action=action)
                status = handle.poll()
                self.recorder.requests(block, status.records)
                if onlooker is not None:
                    onlooker(handle.plan, now_s, status.records)
                watch.tick()
                now = time.monotonic()
                self.recorder.accounts(now, block)
                guard.requests(now, status.records)
                guard.look(now, self.monitor.unready, self._radius.disturbed, self._healed)
                show(min(now_s, length_s), _progress_text(handle.plan, status))
                if status.state == "done" and now_s >= length_s:
                    break
                if status.state in ("stopped", "failed") or now_s > limit_s:
                    raise handle.failure(
                        status.problem or f"state {status.state} after {now_s:.0f} s"
                    )
                time.sleep(_TICK_S)
        end = origin + length_s
        self.recorder.event(end, what="arm", kind=block.arm, action="end")

    def _address(self, machine: str) -> str:
        return self.fleet.inventory.machine(machine).address

    def _on_fault(self, monotonic: float, **event: Any) -> None:
        if event["kind"] in MACHINE_KINDS:
            down = event["action"] == "inject"
            (self.monitor.expect_down if down else self.monitor.expect_up)(event["machine"])
        if event["action"] == "revert":
            self._healed[event["machine"]] = monotonic
        self.recorder.event(monotonic, **event)
