"""One block: one arm's configuration, load, interference and faults, all ended at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from experiments.agents import Arbiter
from experiments.errors import MeasurementFailed, SparecraftError
from experiments.faults import FaultController, FaultEvent, Injection, Step, Tally
from experiments.interference import episodes
from experiments.load.generator import LoadGenerator, LoadHandle
from experiments.load.plan import plan_block
from experiments.load.users import Population
from experiments.platform import Inventory
from experiments.records import SPOILED
from experiments.runner.console import Narrator
from experiments.runner.host import HostBlock, HostWatch, wait_until_quiet
from experiments.runner.live_fleet import Fleet
from experiments.runner.monitor import Monitor
from experiments.runner.recorder import Recorder
from experiments.runner.schemes import scheme_at_work
from experiments.schedule import Block, block_length_s, pair_seed
from experiments.spec import Design
from experiments.spec.experiment import Experiment, Interference

SETTLING = -1  # the number of the block before the first
_LEAD_S = 0.5  # between the order to begin and the block's second 0
_DRAIN_S = 2.0  # beyond the time-outs, for the generator's own end
_TICK_S = 0.25


def injections(design: Design, block: Block, inventory: Inventory) -> list[Injection]:
    """The block's interference and faults in seconds from its start, the same for both arms."""
    experiment = design.experiment
    window_s = block_length_s(experiment)
    result = []
    for episode in episodes(experiment.interference, design.fleet, window_s, block.seed):
        parameters = dict(episode.parameters)
        steps = []
        if episode.peer is not None:
            port = {"port": parameters["port"]}
            steps.append(Step("interference.iperf_server", episode.peer, port))
            parameters["peer"] = inventory.machine(episode.peer).address
        steps.append(Step(episode.kind, episode.machine, parameters))
        result.append(Injection(episode.start_s, episode.duration_s, "interference", tuple(steps)))
    for fault in experiment.faults:
        at_s = experiment.phases.warm_up + fault.at_s
        for machine in design.select(fault.select):
            step = Step(fault.kind, machine, fault.parameters)
            result.append(Injection(at_s, fault.for_s, "fault", (step,)))
    return result


def configure(design: Design, arm: str, arbiters: Mapping[str, Arbiter]) -> None:
    """Bring every arbiter to the arm's policy, tokens and replicas."""
    spec = design.experiment.arms[arm]
    for tier, arbiter in arbiters.items():
        arbiter.set_policy(spec.policy, spec.tokens.get(tier, design.fleet.arbiters[tier].tokens))
        arbiter.set_replicas(spec.replicas[tier])


class BlockRun:
    """Carries out blocks; `handles` keeps each one's records, however it ended, `host` its host;
    `spoiled` the records of what was set aside."""

    def __init__(
        self,
        design: Design,
        fleet: Fleet,
        recorder: Recorder,
        monitor: Monitor,
        generator: LoadGenerator,
        tally: Tally,
        quiet_wait_s: float = 0.0,
    ) -> None:
        self._quiet_wait_s = quiet_wait_s
        self._design = design
        self._fleet = fleet
        self._recorder = recorder
        self._monitor = monitor
        self._generator = generator
        self._tally = tally
        self.handles: list[LoadHandle] = []
        self.spoiled: list[LoadHandle] = []
        self.host: list[HostBlock] = []

    def run(
        self,
        block: Block,
        population: Population,
        narrator: Narrator,
        experiment: Experiment | None = None,
    ) -> None:
        """Configure, load, disturb; everything that was injected is reverted when this returns.

        Parameters: experiment, which goes before the design's; its arms are the design's.
        """
        waited_s = wait_until_quiet(self._quiet_wait_s)
        if waited_s > 0.0:
            narrator.detail(f"waited {waited_s:.0f} s for a quiet host")
        configure(self._design, block.arm, self._fleet.arbiters)
        asked = experiment or self._design.experiment
        design = replace(self._design, experiment=asked)
        plan = plan_block(self._fleet.inventory.endpoints.entry, asked, block, population)
        self._recorder.block = block
        handle = self._generator.start(plan)
        self.handles.append(handle)
        stop = threading.Event()
        controller = FaultController(
            self._fleet.agents, self._fleet.platform, self._on_fault, self._tally
        )
        try:
            handle.wait_ready()
            watch = HostWatch()
            origin = time.monotonic() + _LEAD_S
            worker = threading.Thread(
                target=controller.run,
                args=(
                    injections(design, block, self._fleet.inventory),
                    origin,
                    plan.length_s,
                    stop,
                ),
                name="faults",
            )
            worker.start()
            try:
                with scheme_at_work(
                    design, block, self._fleet, self._recorder, self._tally, origin
                ):
                    handle.go(self._recorder.clock.since_s(origin))
                    self._follow(handle, block, origin, narrator, watch)
            finally:
                stop.set()
                worker.join()
                self.host.append(watch.block(block, waited_s))
        finally:
            handle.stop()
            self._recorder.requests(plan, handle.poll().records)
            self._recorder.block = None

    def settle(self, population: Population, narrator: Narrator) -> None:
        """The design's load without neighbours and faults, if it asks for that; nothing of it is
        kept but its events."""
        asked = self._design.experiment
        if asked.phases.settle == 0.0:
            return
        calm = {
            "phases": asked.phases.model_copy(
                update={"warm_up": asked.phases.settle, "measure": 0.0}
            ),
            "interference": Interference(pattern="none"),
            "faults": (),
            "failover": None,
        }
        seed = pair_seed(asked.design.seed, SETTLING)
        block = Block(SETTLING, SETTLING, next(iter(asked.arms)), seed)
        self.run(block, population, narrator, asked.model_copy(update=calm))
        self.set_aside(block, "the fleet settled")
        self.spoiled.pop()
        self.host.pop()

    def set_aside(self, block: Block, why: str) -> None:
        """The last block's records are kept apart and count for nothing."""
        self._recorder.block = block
        self._recorder.event(
            time.monotonic(), what="block", kind=block.arm, action=SPOILED, text=why
        )
        self._recorder.block = None
        self.spoiled.append(self.handles.pop())
        self.host[-1] = replace(self.host[-1], spoiled=why)

    def _follow(
        self,
        handle: LoadHandle,
        block: Block,
        origin: float,
        narrator: Narrator,
        watch: HostWatch,
    ) -> None:
        """Until the load is done: live samples to InfluxDB, phases to the event log."""
        windows = [(window.start_s, window.end_s, window.phase) for window in handle.plan.windows]
        marks = sorted(
            [(start, 1, "start", phase) for start, _, phase in windows]
            + [(end, 0, "end", phase) for _, end, phase in windows]
        )
        length_s, load = handle.plan.length_s, handle.plan.load
        limit_s = length_s + load.connect_timeout_s + load.response_timeout_s + _DRAIN_S
        self._recorder.event(origin, what="arm", kind=block.arm, action="start")
        rate = f", {load.user} at {load.rate_per_s:g}/s" if self._design.experiment.capacity else ""
        title = f"  block {block.repeat + 1}: {block.arm}{rate}"
        if block.repeat == SETTLING:
            title = f"  settling, {length_s:g} s without neighbours"
        with narrator.bar(title, length_s) as bar:
            while True:
                now_s = time.monotonic() - origin
                while marks and marks[0][0] <= now_s:
                    at_s, _, action, phase = marks.pop(0)
                    self._recorder.event(origin + at_s, what="phase", kind=phase, action=action)
                status = handle.poll()
                self._recorder.requests(handle.plan, status.records)
                watch.tick()
                bar.update(min(now_s, length_s), f"{status.recorded}/{status.planned} requests")
                if status.state == "done" and now_s >= length_s:
                    break
                if status.state in ("stopped", "failed") or now_s > limit_s:
                    raise MeasurementFailed(
                        f"load generator, block {block.repeat}",
                        expected=f"its end within {limit_s:.0f} s",
                        came=f"state {status.state} after {now_s:.0f} s",
                        do=f"Its log is {handle.log_path}.",
                    )
                time.sleep(_TICK_S)
        end = origin + length_s
        self._recorder.event(end, what="arm", kind=block.arm, action="end")

    def _on_fault(self, event: FaultEvent) -> None:
        if event.kind.startswith("machine."):
            down = event.action == "inject"
            (self._monitor.expect_down if down else self._monitor.expect_up)(event.machine)
        self._recorder.fault(event)


def revert_everything(fleet: Fleet) -> list[str]:
    """Whatever is still active on any machine; returns what could not be reverted."""
    failed = []
    for name, agent in fleet.agents.items():
        try:
            agent.revert_all()
        except SparecraftError as error:
            failed.append(f"{name}: {error}")
    return failed


def close(fleet: Fleet) -> None:
    """Close all connections."""
    for api in [*fleet.agents.values(), *fleet.standbys.values(), *fleet.arbiters.values()]:
        with suppress(SparecraftError):
            api.close()
