"""The steps on a fleet of one node: sweep by sweep, workload by workload."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.capacity.report import write_capacity_report
from experiments.capacity.result import capacity_json
from experiments.capacity.steps import Asked, Step, steps_of
from experiments.load.users import USERS
from experiments.metrics.frames import response_limit_ms
from experiments.platform import Platform
from experiments.records import write_json
from experiments.runner.block import BlockRun
from experiments.runner.console import Narrator
from experiments.runner.live import Kept, LiveRun, carry_out
from experiments.runner.manifest import spec_json
from experiments.schedule import Block, pair_seed
from experiments.spec import Design
from experiments.spec.experiment import Experiment, Workload

ATTEMPTS_MAX = 3
RESOLUTION = 1.15  # of the steps on both sides of the limit: their rates, one over the other
FIRST_WARM_UP_S = 20.0  # of a workload's first step: caches fill and code is compiled
_BEYOND_IN_A_ROW = 2  # steps that end the ascent: one may be the host's doing


@dataclass(frozen=True)
class Measured(Kept):
    """What the steps came to."""

    capacity: dict[str, Any]
    report: Path

    @property
    def passed(self) -> bool:
        """Every workload has its NodT, the run is valid, and the fleet is gone."""
        return bool(self.capacity["complete"] and self.capacity["verdicts"]["cleanup"]["ok"])


def measure_capacity(
    design: Design,
    *,
    results: Path,
    keep: bool,
    command: Sequence[str],
    narrator: Narrator,
    quiet_wait_s: float = 0.0,
    platform: Platform | None = None,
) -> Measured:
    """Bring the node up, raise the load, report, take it down. Raises what ended it early.

    Parameters: platform None, this host.
    """
    folder = results.resolve() / design.fleet.experiment
    run = _CapacityRun(design, folder, command, narrator, platform)
    run.quiet_wait_s = quiet_wait_s
    return carry_out(run, results, keep=keep)


class _CapacityRun(LiveRun[Measured]):
    """The first sweep looks for the limit; the others repeat its rates, ascending."""

    quiet_wait_s = 0.0

    def __init__(
        self,
        design: Design,
        folder: Path,
        command: Sequence[str],
        narrator: Narrator,
        platform: Platform | None,
    ) -> None:
        super().__init__(design, folder, command, narrator, platform)
        self._asked: list[Asked] = []
        self._overloaded: Asked | None = None  # the last step, if it was beyond its limit
        self._runner: BlockRun | None = None

    def measure(self) -> None:
        self._runner, _ = self._block_run(self.quiet_wait_s)
        rates: dict[str, list[float]] = {}
        with self.narrator.step("Raising the load"):
            for workload in self.design.experiment.workloads:
                rates[workload.user] = self._search(workload)
            for sweep in range(1, self.design.experiment.design.repeats):
                for workload in self.design.experiment.workloads:
                    for rate in rates[workload.user]:
                        self._step(workload, sweep, rate)

    def _search(self, workload: Workload) -> list[float]:
        """The first sweep's rates, ascending: up until the limit is passed twice in a row, or to
        the end of what may be asked; then closer to the limit from both sides."""
        capacity = self.design.experiment.capacity
        assert capacity is not None  # the command looked
        rates: list[float] = []
        rate, beyond = workload.rate_per_s, 0
        rate_max = self.design.experiment.load.rate_per_s_max
        while len(rates) < capacity.steps_max and rate <= rate_max:
            warm_up_s = 0.0 if rates else FIRST_WARM_UP_S
            beyond = beyond + 1 if self._is_beyond(workload, rate, warm_up_s) else 0
            rates.append(rate)
            if beyond == _BEYOND_IN_A_ROW:
                break
            rate = float(f"{rate * capacity.factor:.3g}")
        if beyond in (0, len(rates)):  # all within, or none
            return rates
        low, high = rates[-beyond - 1], rates[-beyond]
        while len(rates) < capacity.steps_max and (between := rate_between(low, high)):
            if self._is_beyond(workload, between):
                high = between
            else:
                low = between
            rates.append(between)
        return sorted(rates)

    def _is_beyond(self, workload: Workload, rate_per_s: float, warm_up_s: float = 0.0) -> bool:
        step = self._step(workload, 0, rate_per_s, warm_up_s)
        self.narrator.detail(
            f"p95 {step.p95_ms:.1f} ms, {step.answered_per_s:.1f} answers/s, "
            f"lag p99 {step.lag_p99_ms:.2f} ms"
        )
        return self._overloaded is not None

    def _step(
        self, workload: Workload, sweep: int, rate_per_s: float, warm_up_s: float = 0.0
    ) -> Step:
        """The step, tried again while the generator is late: that is the host's doing."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            asked = Asked(
                len(self._asked), sweep, workload.user, rate_per_s, workload.p95_ms, attempt
            )
            self._rest(asked)
            step = self._attempt(
                asked, at_rate(self.design.experiment, workload, rate_per_s, warm_up_s)
            )
            beyond = is_beyond(step, self.design.experiment.slo.max_error_share)
            self._overloaded = asked if beyond else None
            if not step.is_late:
                break
            self.narrator.detail(f"the generator was late: lag p99 {step.lag_p99_ms:.1f} ms")
        return step

    def _rest(self, asked: Asked) -> None:
        assert self._runner is not None
        if self._overloaded is None or not needs_rest(self._overloaded, asked):
            return
        length_s = self._runner.handles[-1].plan.length_s
        self.narrator.detail(f"resting {length_s:.0f} s: the last step may still be under way")
        time.sleep(length_s)

    def _attempt(self, asked: Asked, experiment: Experiment) -> Step:
        assert self._runner is not None
        seed = pair_seed(experiment.design.seed, asked.block)
        block = Block(asked.block, asked.block, next(iter(experiment.arms)), seed)
        self._runner.run(block, USERS[asked.user](), self.narrator, experiment)
        self._asked.append(asked)
        records = self._runner.handles[-1].records()
        return steps_of([asked], records, None, {}, self._limit_ms())[0]

    def _limit_ms(self) -> float:
        return response_limit_ms({"spec": spec_json(self.design)})

    def _write(self) -> Measured:
        requests, body, _ = self._write_records()
        steps = steps_of(
            self._asked, requests, self._hosts, _generator_cores(body), self._limit_ms()
        )
        capacity = capacity_json(self.design, body, steps)
        write_json(self._folder / "capacity.json", capacity)
        return Measured(self._folder, capacity, write_capacity_report(self._folder))


def at_rate(
    experiment: Experiment, workload: Workload, rate_per_s: float, warm_up_s: float = 0.0
) -> Experiment:
    """The experiment of one step; slow ones last until `requests_min` can be expected.

    Parameters: warm_up_s, the least; the design's own may be longer.
    """
    assert experiment.capacity is not None
    load = experiment.load.model_copy(update={"user": workload.user, "rate_per_s": rate_per_s})
    measure_s = max(experiment.phases.measure, experiment.capacity.requests_min / rate_per_s)
    warm_up_s = max(experiment.phases.warm_up, warm_up_s)
    phases = experiment.phases.model_copy(update={"warm_up": warm_up_s, "measure": measure_s})
    return experiment.model_copy(update={"load": load, "phases": phases})


def is_beyond(step: Step, max_error_share: float) -> bool:
    """Whether the node did not carry what the step asked for."""
    return step.error_share > max_error_share or step.p95_ms > step.asked.limit_ms


def needs_rest(overloaded: Asked, asked: Asked) -> bool:
    """Whether a step after `overloaded` could be charged with that one's work: a server goes on
    with requests on which their clients gave up. A higher rate of the same workload is beyond the
    limit in any case."""
    return asked.user != overloaded.user or asked.rate_per_s <= overloaded.rate_per_s


def rate_between(low: float, high: float) -> float | None:
    """A rate between one within the limit and one beyond it; None where they are close enough."""
    return float(f"{math.sqrt(low * high):.3g}") if high > RESOLUTION * low else None


def _generator_cores(manifest: dict[str, Any]) -> dict[int, float]:
    """CPU of each block's busiest load worker [cores]; blocks of which it is not known are out."""
    found = {}
    for block in (manifest.get("load") or {}).get("blocks") or ():
        shares = [w["cpu_share"] for w in block["workers"] if w.get("cpu_share") is not None]
        if shares:
            found[int(block["repeat"])] = float(max(shares))
    return found
