"""Levels that are watched over nights: a series of every metric of each design, one value per
night.

Gains are relative to the baseline of the same run, so a slower host alone is no change. They do not
show that both arms become slower, more expensive or faulty together, so the levels are watched too.
Levels that depend on the host's speed (latencies, NodT, utilisation) also have the night's speed of
the reference kernel (`reference.py`), and `changes.py` reports a change only if both the level and
the level at the kernel's speed have changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from experiments.nightly.history import History, Run
from experiments.record.metrics.frames import ALLOWED
from experiments.record.metrics.pooled import Pooled, pooled_log, standard_error

GAINS = ("p95", "p99")
PERCENTILES = ("p50", "p95", "p99")
BURNS = ("p95_ms", "p99_ms")
PLANNED, FEASIBLE, MET = "plan_usd_per_month", "plan_feasible", "slo_met"
ERRORS, PER_MILLION = "errors", "usd_per_million_good"

LOG_NOISE_MIN = 0.02  # of a logarithm, where nights do not differ: a planned cost
YES_NOISE_MIN = 0.35  # of yes or no: three nights in a row say that it changed, two do not


@dataclass(frozen=True)
class Value:
    """A night's value: `bad` of `of` if it is a share, else its logarithm."""

    log: float = math.nan
    bad: float = math.nan
    of: float = math.nan


@dataclass(frozen=True)
class Series:
    """A metric over nights, of one version of a design.

    share: the values are counts of requests; they are compared as angles (Anscombe 1948), whose
    spread is known. yes_no: the values are counts of runs. unit: divisor of a share when it is
    shown. speeds: for each night, the log of the reference kernel's speed times the power with
    which the level falls as the host becomes faster; None if the host's speed has no effect.
    """

    entry: str
    arm: str | None
    metric: str
    nights: tuple[tuple[Run, ...], ...]
    values: tuple[Value, ...]
    share: bool = False
    yes_no: bool = False
    unit: float = 1.0
    speeds: tuple[float, ...] | None = None

    @property
    def key(self) -> str:
        """Name in the history."""
        return "/".join(part for part in (self.entry, self.arm, self.metric) if part)

    def first(self, count: int) -> Series:
        """Return the series as it was after so many nights."""
        speeds = None if self.speeds is None else self.speeds[:count]
        return replace(self, nights=self.nights[:count], values=self.values[:count], speeds=speeds)

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The values on the scale on which a night's noise is about the same at every level."""
        if self.yes_no:
            return np.array([value.bad / value.of for value in self.values])
        if self.share:
            return np.array(
                [
                    2 * math.asin(math.sqrt((value.bad + 3 / 8) / (value.of + 3 / 4)))
                    for value in self.values
                ]
            )
        return np.array([value.log for value in self.values])

    @property
    def noise_min(self) -> float:
        """The least noise of a night, on that scale."""
        if self.yes_no:
            return YES_NOISE_MIN
        if self.share and self.values:
            return 1 / math.sqrt(float(np.median([value.of for value in self.values])))
        return LOG_NOISE_MIN

    def level(self, begin: int, until: int) -> float:
        """Return the metric over nights, in its own unit."""
        part = self.values[begin:until]
        if self.share:
            return sum(value.bad for value in part) / sum(value.of for value in part) / self.unit
        return math.exp(float(np.mean([value.log for value in part])))

    def size(self, begin: int, at: int, until: int) -> float:
        """Return the logarithm of the factor between the levels from `at` on and before.

        Half a request is added on both sides, because 0 of 960 has no logarithm.
        """
        before, after = self.values[begin:at], self.values[at:until]
        if not self.share:
            return float(
                np.mean([value.log for value in after]) - np.mean([value.log for value in before])
            )

        def share(part: Sequence[Value]) -> float:
            return (sum(value.bad for value in part) + 0.5) / (
                sum(value.of for value in part) + 1.0
            )

        return math.log(share(after) / share(before))


def all_series(history: History) -> Iterator[Series]:
    """Yield a series of every watched metric, design by design and version by version."""
    groups: dict[tuple[str, str], list[Run]] = {}
    run_heads: dict[str, dict[tuple[int, int], Run]] = {}
    for run in history.runs:
        if run.valid:
            run_heads.setdefault(run.entry, {}).setdefault((run.night, run.number), run)
            if run.arm is not None:
                groups.setdefault((run.entry, run.arm), []).append(run)
    for (entry, arm), runs in groups.items():
        for version in versions(runs):
            yield from _arm_series(entry, arm, version)
    for entry, heads in run_heads.items():
        for version in versions(list(heads.values())):
            yield from _run_series(entry, version)


def versions(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield the stretches of runs with the same version of a design, by night."""
    part: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.night, run.number)):
        if part and run.digest != part[-1].digest:
            yield part
            part = []
        part.append(run)
    if part:
        yield part


def _arm_series(entry: str, arm: str, runs: Sequence[Run]) -> Iterator[Series]:
    nights = _by_night(runs)
    if any(run.arm != run.baseline for run in runs):
        for name in GAINS:
            yield _series(entry, arm, f"gain_{name}", nights, _gain(name))
    for name in PERCENTILES:
        yield _series(entry, arm, f"{name}_ms", nights, _mean_log(_percentile(name)))
    yield _series(entry, arm, ERRORS, nights, _errors, share=True)
    yield _series(entry, arm, PER_MILLION, nights, _mean_log(lambda run: run.cost.get(PER_MILLION)))
    if any(run.arm == run.judged for run in runs):
        for name in BURNS:
            metric = f"burn_{name.removesuffix('_ms')}"
            allowed = ALLOWED[name]
            yield _series(entry, arm, metric, nights, _burn_value(name), share=True, unit=allowed)
        yield _series(
            entry, arm, MET, nights, _yes_share(lambda run: run.slo_met), share=True, yes_no=True
        )


def _run_series(entry: str, runs: Sequence[Run]) -> Iterator[Series]:
    nights = _by_night(runs)
    yield _series(
        entry, None, PLANNED, nights, _mean_log(lambda run: run.plan.get("usd_per_month"))
    )
    yield _series(
        entry, None, FEASIBLE, nights, _yes_share(lambda run: run.plan.get("feasible")),
        share=True, yes_no=True,
    )  # fmt: skip
    for name in dict.fromkeys(name for run in runs for name in run.levels):
        yield _series(entry, None, name, nights, _mean_log(level_of(name)))
    if all(run.arm is None for run in runs):
        yield _series(
            entry, None, MET, nights, _yes_share(lambda run: run.slo_met), share=True, yes_no=True
        )


def _by_night(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    nights: dict[int, list[Run]] = {}
    for run in runs:
        nights.setdefault(run.night, []).append(run)
    return [tuple(group) for group in nights.values()]


Measure = Callable[[Sequence[Run]], Value | None]


def _series(
    entry: str, arm: str | None, metric: str, nights: Sequence[tuple[Run, ...]], measure: Measure,
    *, share: bool = False, yes_no: bool = False, unit: float = 1.0,
) -> Series:  # fmt: skip
    power = power_of_speed(metric)
    night_values = [(group, value) for group in nights if (value := measure(group)) is not None]
    if power:
        night_values = [
            (group, value) for group, value in night_values if _speed(group) is not None
        ]
    speeds = tuple(power * (_speed(group) or 0.0) for group, _ in night_values) if power else None
    groups, values = (
        tuple(group for group, _ in night_values),
        tuple(value for _, value in night_values),
    )
    return Series(entry, arm, metric, groups, values, share, yes_no, unit, speeds)


def power_of_speed(metric: str) -> int:
    """Return 1 if a metric is a time or a use of cores, -1 if it is a rate.

    0: the host's speed does not affect it.
    """
    name = metric.partition("/")[0]
    if name.endswith("_per_s"):
        return -1
    return int(name.endswith("_ms") or name == "utilisation")


def _speed(runs: Sequence[Run]) -> float | None:
    """Return the log of the reference kernel's mean speed before a night's runs of a design."""
    logs = [math.log(run.reference_per_s) for run in runs if run.reference_per_s]
    return float(np.mean(logs)) if logs else None


def night_gain(runs: Sequence[Run], statistic: str) -> Pooled | None:
    """Return the pooled gain of runs of one arm; None if no valid run has one with an interval.

    A run's interval is Student's with few degrees of freedom, and is taken for a normal one: that
    makes its error too large, never too small.
    """
    logs, errors = [], []
    for run in runs:
        gain = run.gains.get(statistic)
        if run.valid and gain and gain.low is not None and gain.high is not None:
            error = standard_error(gain.low, gain.high)
            if error > 0:
                logs.append(gain.log)
                errors.append(error)
    return pooled_log(logs, errors) if logs else None


def _gain(statistic: str) -> Measure:
    def measure(runs: Sequence[Run]) -> Value | None:
        gain = night_gain(runs, statistic)
        return Value(log=gain.log) if gain else None

    return measure


def _mean_log(metric: Callable[[Run], float | None]) -> Measure:
    def measure(runs: Sequence[Run]) -> Value | None:
        logs = [math.log(value) for run in runs if (value := metric(run))]
        return Value(log=float(np.mean(logs))) if logs else None

    return measure


def _percentile(name: str) -> Callable[[Run], float | None]:
    def metric(run: Run) -> float | None:
        percentile = getattr(run, name)
        return percentile.ms if percentile else None

    return metric


def level_of(name: str) -> Callable[[Run], float | None]:
    """Return the function that takes a level of the run's kind."""
    return lambda run: run.levels.get(name)


def _errors(runs: Sequence[Run]) -> Value | None:
    requests = sum(run.requests for run in runs)
    return Value(bad=sum(run.errors for run in runs), of=requests) if requests else None


def _burn_value(name: str) -> Measure:
    def measure(runs: Sequence[Run]) -> Value | None:
        burn_runs = [run for run in runs if name in run.burn and run.requests]
        bad_requests = sum(run.burn[name] * ALLOWED[name] * run.requests for run in burn_runs)
        return (
            Value(bad=bad_requests, of=sum(run.requests for run in burn_runs))
            if burn_runs
            else None
        )

    return measure


def _yes_share(metric: Callable[[Run], bool | None]) -> Measure:
    def measure(runs: Sequence[Run]) -> Value | None:
        answers = [bool(value) for run in runs if (value := metric(run)) is not None]
        return Value(bad=sum(answers), of=len(answers)) if answers else None

    return measure
