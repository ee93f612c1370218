"""The walk on a fleet that runs: one window is one block of load with an arm made for its r."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.errors import EnvironmentMissing, InputError
from experiments.load.generator import LoadHandle
from experiments.load.users import Population
from experiments.metrics import prepared
from experiments.records import write_json
from experiments.runner.block import BlockRun
from experiments.runner.console import Narrator
from experiments.runner.live import Kept, LiveRun, carry_out
from experiments.schedule import Block, pair_seed, stream
from experiments.spec import Design
from experiments.spec.experiment import Arm, Order, Phases
from experiments.tune.evidence import Target, Window, stretch_s
from experiments.tune.loads import Poll, tier_load, tier_window, total
from experiments.tune.report import write_tune_report
from experiments.tune.result import tuning_json
from experiments.tune.simulated import simulated_optimum
from experiments.tune.walk import PAIRS_MIN, Measured, OutOfTime, Rules, Walk
from optimizer.replication import Replicas, TierLoad, feasible_replicas
from optimizer.simulation import program

REPLICAS_MAX = 6  # of one tier: beyond, neither the paper nor a queue finds a gain


@dataclass(frozen=True)
class Asked:
    """What `sparecraft tune` was asked for; all of it stands in tune.json."""

    target: Target
    arm: str  # whose policy and tokens are used
    window_s: float
    requests_max: int  # of one comparison
    time_max_s: float  # of all windows
    collision_max: float
    start: Literal["ones", "simulated"]
    exhaustive: bool

    def rules(self, design: Design) -> Rules:
        """How long a comparison may go on. Raises InputError where the budget is for no test."""
        load = design.experiment.load
        per_pair = 2 * load.rate_per_s * self.window_s
        pairs = int(self.requests_max / per_pair)
        if pairs < PAIRS_MIN:
            raise InputError(
                "--requests",
                expected=f"at least {int(np.ceil(PAIRS_MIN * per_pair))}: {PAIRS_MIN} pairs of "
                f"windows of {self.window_s:g} s at {load.rate_per_s:g} requests/s",
                came=str(self.requests_max),
                do="Allow more requests, or shorten the windows.",
            )
        burst_s = design.experiment.interference.mean_run_s
        return Rules(self.target, pairs, stretch_s(self.window_s, burst_s))


@dataclass(frozen=True)
class Tuned(Kept):
    """What a tune came to."""

    tuning: dict[str, Any]
    report: Path

    @property
    def passed(self) -> bool:
        """The walk came to its end, and the fleet is gone (or was to stay)."""
        return bool(self.tuning["complete"] and self.tuning["verdicts"]["cleanup"]["ok"])


def arm_name(replicas: Replicas) -> str:
    """The name of an r in the records: "1,2"."""
    return ",".join(map(str, replicas))


def asked_arm(design: Design, arm: str | None) -> str:
    """The arm that lends its policy and tokens: the one named, else the design's last."""
    arms = design.experiment.arms
    if arm is None:
        return list(arms)[-1]
    if arm not in arms:
        raise InputError(
            "--arm", expected=f"one of {', '.join(arms)}", came=arm, do="Name one of these."
        )
    return arm


def tuning_design(design: Design, asked: Asked) -> Design:
    """The design with an arm for every r, windows instead of phases, neighbours and no faults."""
    experiment, fleet = design.experiment, design.fleet
    lent = experiment.arms[asked.arm]
    ranges = [range(1, min(fleet.tiers[t].nodes, REPLICAS_MAX) + 1) for t in fleet.tier_order]
    arms = {
        arm_name(r): Arm(
            policy=lent.policy,
            replicas=dict(zip(fleet.tier_order, r, strict=True)),
            tokens=lent.tokens,
        )
        for r in itertools.product(*ranges)
    }
    changed = experiment.model_copy(
        update={
            "arms": arms,
            "faults": (),
            "failover": None,
            "phases": Phases(warm_up=0.0, measure=asked.window_s),
            "design": Order(order="A", repeats=1, seed=experiment.design.seed),
        }
    )
    return replace(design, experiment=changed, prediction=None)


def tune_design(
    design: Design,
    asked: Asked,
    *,
    results: Path,
    keep: bool,
    command: Sequence[str],
    narrator: Narrator,
) -> Tuned:
    """Bring the fleet up, walk, report, take it down. Raises what ended it early, data kept."""
    asked.rules(design)  # before anything is made
    if asked.start == "simulated" and not program.PROGRAM.is_file():
        raise EnvironmentMissing(
            "--start simulated",
            expected=f"the simulator, {program.PROGRAM.name}",
            came="no such program",
            do="Run `make setup`, or begin with --start ones.",
        )
    folder = results.resolve() / design.fleet.experiment / "tune"
    run = _TuneRun(tuning_design(design, asked), asked, folder, command, narrator)
    return carry_out(run, results, keep=keep)


class _TuneRun(LiveRun[Tuned]):
    def __init__(
        self, design: Design, asked: Asked, folder: Path, command: Sequence[str], narrator: Narrator
    ) -> None:
        super().__init__(design, folder, command, narrator)
        self._asked = asked
        self._loads: list[TierLoad] = []
        self._feasible: list[Replicas] = []
        self._start: Replicas | None = None
        self._complete = False
        self._rounds: list[list[Measured]] = []
        self._ends_at = float("inf")
        self._runner: BlockRun | None = None
        self._population: Population | None = None
        self._walk = Walk(
            asked.rules(design),
            self._window,
            stream(design.experiment.design.seed, "tune"),
            narrator.detail,
        )

    def measure(self) -> None:
        self._runner, self._population = self._block_run()
        self._ends_at = time.monotonic() + self._asked.time_max_s
        say = self.narrator
        ones = (1,) * len(self.design.fleet.tiers)
        with say.step(f"Measuring r = {ones} and what it costs"):
            self._loads = self._measured_loads(self._walk.measure(ones))
            self._feasible = feasible_replicas(self._loads, self._asked.collision_max, REPLICAS_MAX)
            say.detail(f"feasible: {' '.join(map(str, self._feasible)) or 'nothing'}")
        if self._asked.start == "simulated" and self._feasible:
            with say.step("Asking the simulator where to begin"):
                self._start = self._simulated(ones)
                say.detail(f"begins at {self._start}")
        with say.step("Walking (sPARE Alg. 1)"):
            search = self._walk.search(self._feasible, self._start)
            self._complete = search is not None
            say.detail(self._walk.stopped)
        if self._asked.exhaustive and self._complete:
            rounds = max(PAIRS_MIN, self._walk.rules.pairs_max)
            with say.step(f"Every feasible r, {rounds} windows each"):
                self._rounds = self._walk.exhaust(self._feasible, rounds)

    def _simulated(self, ones: Replicas) -> Replicas:
        """The simulator's optimum, from the windows at r = 1."""
        experiment = self.design.experiment
        tiers = zip(*(w.tiers for w in self._walk.windows if w.replicas == ones), strict=True)
        return simulated_optimum(
            self._loads,
            [total(tier) for tier in tiers],
            experiment.interference,
            experiment.arms[arm_name(ones)].policy,
            self._feasible,
            self._asked.target,
            experiment.design.seed,
        )

    def _measured_loads(self, windows: Sequence[Measured]) -> list[TierLoad]:
        fleet, lent = self.design.fleet, self.design.experiment.arms[arm_name(windows[0].replicas)]
        loads = []
        for place, name in enumerate(fleet.tier_order):
            tier = fleet.tiers[name]
            tokens = lent.tokens.get(name, fleet.arbiters[name].tokens)
            loads.append(
                tier_load(
                    name,
                    tier.nodes,
                    tier.cpus,
                    tokens if lent.policy.startswith("tad") else None,
                    total([window.tiers[place] for window in windows]),
                )
            )
        return loads

    def _window(self, replicas: Replicas, pair: int) -> Measured:
        """One block of load at r."""
        assert self._runner is not None
        assert self._population is not None
        left_s = self._ends_at - time.monotonic()
        if left_s < self._asked.window_s:
            raise OutOfTime(f"time is over ({self._asked.time_max_s:.0f} s for all windows)")
        number = len(self._walk.windows)
        seed = pair_seed(self.design.experiment.design.seed, pair)
        before = self._polls()
        block = Block(number, pair, arm_name(replicas), seed)
        self._runner.run(block, self._population, self.narrator)
        after = self._polls()
        handle = self._runner.handles[-1]
        tiers = tuple(
            tier_window(before[tier], after[tier], handle.plan.length_s)
            for tier in self.design.fleet.tier_order
        )
        window = _latencies(handle, self._limit_ms())
        return Measured(replicas, pair, len(handle.plan.offsets_s), window, tiers)

    def _polls(self) -> dict[str, Poll]:
        assert self._fleet is not None
        return {
            tier: {"stats": arbiter.stats(), "latency": arbiter.latency()}
            for tier, arbiter in self._fleet.arbiters.items()
        }

    def _limit_ms(self) -> float:
        load = self.design.experiment.load
        return 1e3 * max(load.response_timeout_s, load.connect_timeout_s)

    def _write(self) -> Tuned:
        _, manifest, _ = self._write_records()
        tuning = tuning_json(
            manifest, self._asked, self._walk, self._loads, self._feasible, self._rounds,
            complete=self._complete,
        )  # fmt: skip
        write_json(self._folder / "tune.json", tuning)
        return Tuned(self._folder, tuning, write_tune_report(self._folder))


def _latencies(handle: LoadHandle, limit_ms: float) -> Window:
    """A block's latencies by the time since its start, what was never sent at the time-out."""
    frame = prepared(handle.records(), limit_ms).sort("index")
    at_s = np.asarray(handle.plan.offsets_s)[frame["index"].to_numpy()]
    latency_ms = frame["latency_ms"].to_numpy().astype(np.float64)
    return Window(handle.plan.length_s, at_s, latency_ms)
