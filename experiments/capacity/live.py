"""The steps on a fleet of one node: sweep by sweep, workload by workload."""

from __future__ import annotations

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
_BEYOND_IN_A_ROW = 2  # steps that end the first sweep: one may be the host's doing


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
    """The first sweep looks for the limit; the others repeat its steps."""

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
        """The first sweep: beyond the limit twice in a row, or to the end of what may be asked."""
        capacity = self.design.experiment.capacity
        assert capacity is not None  # the command looked
        rates: list[float] = []
        rate, beyond = workload.rate_per_s, 0
        rate_max = self.design.experiment.load.rate_per_s_max
        while len(rates) < capacity.steps_max and rate <= rate_max:
            step = self._step(workload, 0, rate)
            rates.append(rate)
            self.narrator.detail(
                f"p95 {step.p95_ms:.1f} ms, {step.answered_per_s:.1f} answers/s, "
                f"lag p99 {step.lag_p99_ms:.2f} ms"
            )
            failing = step.error_share > self.design.experiment.slo.max_error_share
            beyond = beyond + 1 if failing or step.p95_ms > workload.p95_ms else 0
            if beyond == _BEYOND_IN_A_ROW:
                break
            rate = float(f"{rate * capacity.factor:.3g}")
        return rates

    def _step(self, workload: Workload, sweep: int, rate_per_s: float) -> Step:
        """The step, tried again while the generator is late: that is the host's doing."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            step = self._attempt(workload, sweep, rate_per_s, attempt)
            if not step.is_late:
                break
            self.narrator.detail(f"the generator was late: lag p99 {step.lag_p99_ms:.1f} ms")
        return step

    def _attempt(self, workload: Workload, sweep: int, rate_per_s: float, attempt: int) -> Step:
        assert self._runner is not None
        experiment = self.design.experiment
        number = len(self._asked)
        asked = Asked(number, sweep, workload.user, rate_per_s, workload.p95_ms, attempt)
        seed = pair_seed(experiment.design.seed, number)
        block = Block(number, number, next(iter(experiment.arms)), seed)
        population = USERS[workload.user]()
        self._runner.run(
            block, population, self.narrator, at_rate(experiment, workload, rate_per_s)
        )
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


def at_rate(experiment: Experiment, workload: Workload, rate_per_s: float) -> Experiment:
    """The experiment of one step; slow ones last until `requests_min` can be expected."""
    assert experiment.capacity is not None
    load = experiment.load.model_copy(update={"user": workload.user, "rate_per_s": rate_per_s})
    measure_s = max(experiment.phases.measure, experiment.capacity.requests_min / rate_per_s)
    phases = experiment.phases.model_copy(update={"measure": measure_s})
    return experiment.model_copy(update={"load": load, "phases": phases})


def _generator_cores(manifest: dict[str, Any]) -> dict[int, float]:
    """CPU of each block's busiest load worker [cores]; blocks of which it is not known are out."""
    found = {}
    for block in (manifest.get("load") or {}).get("blocks") or ():
        shares = [w["cpu_share"] for w in block["workers"] if w.get("cpu_share") is not None]
        if shares:
            found[int(block["repeat"])] = float(max(shares))
    return found
