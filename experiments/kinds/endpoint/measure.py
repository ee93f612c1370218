"""Blocks of load on somebody else's service. A block ends by its plan, its guard or a halt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.statistics.percentiles import time_out_ms
from experiments.design import Design
from experiments.design.design_files import FOLDER, copy_design_files
from experiments.design.endpoint import ARM
from experiments.design.experiment import Experiment
from experiments.design.schedule import Block, blocks, pair_seed
from experiments.design.target import Target
from experiments.load.generator import LoadGenerator, LoadHandle
from experiments.load.plan import plan_block
from experiments.load.tls import UNCHECKED, PlanTls, check_answers, tls_of
from experiments.run.blocks import write_blocks
from experiments.testbed.guard import GuardWatch
from experiments.testbed.host import HostBlock, HostWatch, wait_until_quiet
from experiments.testbed.testbed import Testbed

PLATFORM = "endpoint"  # in a result's head
_SETTLING = -1
_LEAD_S = 0.5
_DRAIN_S = 2.0
_TICK_S = 0.25


def measure(testbed: Testbed, target: Target) -> None:
    """Measure all blocks of the design, after an optional block that lets the service settle."""
    design = testbed.design
    copy_design_files(design.directory, design.experiment.load, testbed.folder / FOLDER)
    run = EndpointRun(testbed, target, tls=_tls_of(design, target))
    if design.experiment.load.insecure:
        testbed.narrator.say(UNCHECKED)
    testbed.keep(run.write)
    experiment = design.experiment
    with testbed.narrator.step(f"Measuring {target.url}"):
        if experiment.phases.settle > 0.0:
            phases = {"warm_up": experiment.phases.settle, "measure": 0.0}
            calm = experiment.model_copy(
                update={"phases": experiment.phases.model_copy(update=phases)}
            )
            run.block(Block(_SETTLING, 0, ARM, pair_seed(experiment.design.seed, _SETTLING)), calm)
            run.handles.clear()
            run.host.clear()
        for block in blocks(experiment):
            run.block(block, experiment)


def check_target(design: Design, target: Target) -> None:
    """Check that the service matches its URL. Raises InputError, EnvironmentMissing."""
    timeout_s = design.experiment.load.connect_timeout_s
    check_answers(target, _tls_of(design, target), timeout_s)


def _tls_of(design: Design, target: Target) -> PlanTls | None:
    name = target.host if target.scheme == "https" else None
    return tls_of(design.experiment.load, design.directory, name)


@dataclass
class EndpointRun:
    """The blocks sent so far, with the records of each, however it ended."""

    testbed: Testbed
    target: Target
    handles: list[LoadHandle] = field(default_factory=list)
    discarded: list[LoadHandle] = field(default_factory=list)
    host: list[HostBlock] = field(default_factory=list)
    tls: PlanTls | None = None

    def block(self, block: Block, experiment: Experiment) -> None:
        """Send one block. Raises Stopped if the guard ends it."""
        testbed, design = self.testbed, self.testbed.design
        waited_s = wait_until_quiet(testbed.quiet_wait_s)
        workload = design.workloads[experiment.load.user]
        entries = dict.fromkeys(design.fleet.entry_tiers, (self.target.entry,))
        plan = plan_block(entries, experiment, block, workload, self.target)
        plan = replace(plan, tls=self.tls)
        generator = LoadGenerator(
            testbed.folder / "load",
            t0_monotonic_s=testbed.clock.monotonic,
            worker=experiment.load.worker,
            design=design.directory,
        )
        handle = generator.start(plan)
        self.handles.append(handle)
        try:
            handle.wait_ready()
            watch = HostWatch()
            origin = time.monotonic() + _LEAD_S
            handle.go(testbed.clock.since_s(origin))
            try:
                self._follow(handle, block, experiment, origin, watch)
            finally:
                self.host.append(watch.block(block, waited_s))
        finally:
            handle.stop()

    def _follow(
        self,
        handle: LoadHandle,
        block: Block,
        experiment: Experiment,
        origin: float,
        watch: HostWatch,
    ) -> None:
        plan, load = handle.plan, experiment.load
        limit_s = plan.length_s + plan.drain_s + _DRAIN_S
        time_out = time_out_ms(load.connect_timeout_s, load.response_timeout_s)
        guard = GuardWatch(experiment.guard, origin, time_out)
        title = f"  block {block.repeat + 1}: {load.user} at {load.sent_per_s:g}/s"
        if block.repeat == _SETTLING:
            title = f"  settling, {plan.length_s:g} s"
        with self.testbed.narrator.bar(title, plan.length_s) as show:
            while True:
                status = handle.poll()
                now = time.monotonic()
                now_s = now - origin
                watch.tick()
                guard.requests(now, status.records)
                guard.look(now, {}, (), {})
                show(min(now_s, plan.length_s), f"{status.recorded:,} requests")
                if status.state == "done" and now_s >= plan.length_s:
                    return
                if status.state in ("stopped", "failed") or now_s > limit_s:
                    reason = status.problem or f"state {status.state} after {now_s:.0f} s"
                    raise handle.failure(reason)
                time.sleep(_TICK_S)

    def write(self, folder: Path) -> Mapping[str, Any] | None:
        """Write the requests of all blocks; return the manifest's entries for this run."""
        entries = write_blocks(self.testbed, self, folder)
        return entries and {**entries, "platform": PLATFORM}
