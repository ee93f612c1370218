"""The search on a live fleet: one window is one block of load with an arm for its r."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from core.errors import EnvironmentMissing, InputError
from core.statistics.percentiles import time_out_of
from experiments.design import Design
from experiments.design.contracts import COMPARE_OFF, POLICIES
from experiments.design.experiment import Arm, Order, Phases, TierSettings
from experiments.design.fleet import replicas_max
from experiments.design.schedule import Block, pair_seed, stream
from experiments.kinds.calibration import calibrate
from experiments.kinds.tune.evidence import Window, stretch_s
from experiments.kinds.tune.loads import Poll, tier_load, tier_window, total
from experiments.kinds.tune.replicator import (
    PAIRS_MIN,
    MeasuredWindow,
    OutOfTime,
    Replicator,
    Rules,
)
from experiments.kinds.tune.result import SEARCH, result_json
from experiments.kinds.tune.section import TuneSection
from experiments.kinds.tune.simulated import simulated_optimum
from experiments.load.generator import LoadHandle
from experiments.record.manifest import spec_json
from experiments.record.metrics.frames import prepared
from experiments.record.records import write_json
from experiments.run.blocks import blocks_on
from experiments.testbed.testbed import Testbed
from optimizer.replication import (
    Replicas,
    TierLoad,
    collision_probabilities,
    feasible_replicas,
)
from optimizer.simulation import program

REPLICAS_MAX = 6  # of one tier; neither the paper nor a queue has a gain beyond it


def check(design: Design, section: TuneSection) -> None:
    """Raises InputError for an unknown arm or a budget too small for a test, EnvironmentMissing
    without the simulator if it is to choose the start."""
    arms = design.experiment.arms
    if section.arm is not None and section.arm not in arms:
        raise InputError(
            "tune.arm", expected=f"one of {', '.join(arms)}", got=section.arm, hint="Name one."
        )
    if design.experiment.load.utilisation is None:
        _check_budget(design.experiment.load.sent_per_s, section)
    if section.start == "simulated" and not program.PROGRAM.is_file():
        raise EnvironmentMissing(
            'tune.start = "simulated"',
            expected=f"the simulator, {program.PROGRAM.name}",
            got="no such program",
            hint="Run `make setup`, or begin with ones.",
        )


def _check_budget(rate_per_s: float, section: TuneSection) -> None:
    per_pair = 2 * rate_per_s * section.window_s
    if int(section.requests_max / per_pair) < PAIRS_MIN:
        raise InputError(
            "tune.requests_max",
            expected=f"at least {int(np.ceil(PAIRS_MIN * per_pair))}: {PAIRS_MIN} pairs of "
            f"windows of {section.window_s:g} s at {rate_per_s:g} requests/s",
            got=str(section.requests_max),
            hint="Allow more requests, or shorten the windows.",
        )


def rules_of(design: Design, section: TuneSection) -> Rules:
    """Return the rules of a comparison: target, most pairs, and length of a stretch."""
    pairs = int(section.requests_max / (2 * design.experiment.load.sent_per_s * section.window_s))
    burst_s = design.experiment.interference.mean_run_s
    return Rules(section.target, pairs, stretch_s(section.window_s, burst_s))


def arm_name(replicas: Replicas) -> str:
    """Return the name of an r in the records: "1,2"."""
    return ",".join(map(str, replicas))


def _with_replicas(settings: TierSettings, replicas: int) -> TierSettings:
    """Return a tier's settings with so many replicas; the reply of one is not compared."""
    compare = settings.compare if replicas > 1 else COMPARE_OFF
    return settings.model_copy(update={"replicas": replicas, "compare": compare})


def tuning_design(design: Design, section: TuneSection) -> Design:
    """Return the design with an arm for every r, windows instead of phases, neighbours and no
    faults.

    An r whose copies collide too often has no arm (Eq. 2). The stability of the others is known
    only after the windows at r = 1; the search keeps to stable ones.
    """
    experiment, fleet = design.experiment, design.fleet
    servers = [fleet.tiers[tier].nodes for tier in fleet.arbiter_order]
    base_arm = experiment.arms[section.arm or list(experiment.arms)[-1]]
    replicas_limits = [replicas_max(fleet, tier, design.roles) for tier in fleet.arbiter_order]
    ranges = [range(1, min(r, REPLICAS_MAX) + 1) for r in replicas_limits]
    arms = {
        arm_name(r): Arm(
            settings={
                tier: _with_replicas(base_arm.of(tier), n)
                for tier, n in zip(fleet.arbiter_order, r, strict=True)
            },
            allow_infeasible=True,
        )
        for r in itertools.product(*ranges)
        if max(collision_probabilities(servers, r), default=0.0) <= section.collision_max
    }
    tuned = experiment.model_copy(
        update={
            "arms": arms,
            "faults": (),
            "failover": None,
            "phases": Phases(
                settle=experiment.phases.settle, warm_up=0.0, measure=section.window_s
            ),
            "design": Order(order="A", repeats=1, seed=experiment.design.seed),
        }
    )
    return replace(design, experiment=tuned, prediction=None)


class Tuning:
    """The search on a testbed; all its measurements are kept, however it ends."""

    def __init__(self, testbed: Testbed, section: TuneSection) -> None:
        self._testbed = testbed
        self._section = section
        self._loads: list[TierLoad] = []
        self._feasible: list[Replicas] = []
        self._start: Replicas | None = None
        self._complete = False
        self._runner = blocks_on(testbed)
        if testbed.design.experiment.load.utilisation is not None:
            with testbed.narrator.step("Finding the rate"):
                calibrate(testbed, self._runner)
            _check_budget(self._runner.design.experiment.load.sent_per_s, section)
        self._design = self._runner.design
        self._ends_at = time.monotonic() + section.time_max_s
        self._replicator = Replicator(
            rules_of(self._design, section),
            self._window,
            stream(testbed.design.experiment.design.seed, "tune"),
            testbed.narrator.detail,
        )
        testbed.keep(self._write)

    def measure(self) -> None:
        say = self._testbed.narrator
        all_ones = (1,) * len(self._design.fleet.arbiters)
        with say.step(f"Measuring r = {all_ones} and what it costs"):
            if self._testbed.design.experiment.load.utilisation is None:
                self._runner.settle(say)
            self._loads = self._loads_from(self._replicator.measure(all_ones))
            self._feasible = feasible_replicas(
                self._loads, self._section.collision_max, REPLICAS_MAX
            )
            say.detail(f"feasible: {' '.join(map(str, self._feasible)) or 'nothing'}")
        if self._section.start == "simulated" and self._feasible:
            with say.step("Asking the simulator where to begin"):
                self._start = self._simulate_start(all_ones)
                say.detail(f"begins at {self._start}")
        if self._section.exhaustive and self._feasible:
            rounds = max(PAIRS_MIN, self._replicator.rules.pairs_max)
            with say.step(f"Every feasible r, {rounds} windows each"):
                self._replicator.exhaust(self._feasible, rounds)
        with say.step("Searching (sPARE Alg. 1)"):
            search = self._replicator.search(self._feasible, self._start)
            self._complete = search is not None
            say.detail(self._replicator.stopped)

    def _simulate_start(self, all_ones: Replicas) -> Replicas:
        experiment = self._design.experiment
        tiers = zip(
            *(w.tiers for w in self._replicator.windows if w.replicas == all_ones), strict=True
        )
        return simulated_optimum(
            self._loads,
            [total(tier) for tier in tiers],
            experiment.interference,
            experiment.arms[arm_name(all_ones)].of(self._design.fleet.arbiter_order[0]).policy,
            self._feasible,
            self._section.target,
            experiment.design.seed,
        )

    def _loads_from(self, windows: Sequence[MeasuredWindow]) -> list[TierLoad]:
        fleet = self._design.fleet
        arm = self._design.experiment.arms[arm_name(windows[0].replicas)]
        loads = []
        for index, name in enumerate(fleet.arbiter_order):
            tier = fleet.tiers[name]
            tokens = arm.tokens_of(name, fleet)
            loads.append(
                tier_load(
                    name,
                    tier.nodes,
                    tier.cpus,
                    tokens if POLICIES[arm.of(name).policy].takes_tokens else None,
                    total([window.tiers[index] for window in windows]),
                )
            )
        return loads

    def _window(self, replicas: Replicas, pair: int) -> MeasuredWindow:
        """Run one block of load at r. Raises OutOfTime if no time for it is left."""
        remaining_s = self._ends_at - time.monotonic()
        if remaining_s < self._section.window_s:
            raise OutOfTime(f"time is over ({self._section.time_max_s:.0f} s for all windows)")
        number = len(self._replicator.windows)
        seed = pair_seed(self._design.experiment.design.seed, pair)
        before = self._polls()
        block = Block(number, pair, arm_name(replicas), seed)
        self._runner.run(block, self._testbed.narrator)
        after = self._polls()
        handle = self._runner.handles[-1]
        tiers = tuple(
            tier_window(before[tier], after[tier], handle.plan.length_s)
            for tier in self._design.fleet.arbiter_order
        )
        window = _latencies(handle, time_out_of({"spec": spec_json(self._design)}))
        return MeasuredWindow(replicas, pair, len(handle.plan.offsets_s), window, tiers)

    def _polls(self) -> dict[str, Poll]:
        return {
            tier: {"stats": arbiter.stats(), "latency": arbiter.latency()}
            for tier, arbiter in self._testbed.fleet.arbiters.items()
        }

    def _write(self, folder: Path) -> None:
        result = result_json(
            self._section, self._replicator, self._loads, self._feasible, complete=self._complete
        )
        write_json(folder / SEARCH, result)


def _latencies(handle: LoadHandle, limit_ms: float) -> Window:
    """Return a block's latencies by the time since its start; a request that was never sent counts
    with the time-out.
    """
    frame = prepared(handle.records(), limit_ms).sort("index")
    at_s = np.asarray(handle.plan.offsets_s)[frame["index"].to_numpy()]
    latency_ms = frame["latency_ms"].to_numpy().astype(np.float64)
    return Window(handle.plan.length_s, at_s, latency_ms)
