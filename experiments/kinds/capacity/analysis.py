"""NodT, the knee and the cost of a request, from the steps of a workload.

NodT is PCRAFT's throughput of one node: the highest rate at which p95 keeps the limit. p95 may only
rise with the rate, so the p95 of each step is raised to the highest earlier one. Between the last
step within the limit and the first beyond it, log p95 is interpolated linearly. The knee is the
step of the greatest power, throughput over mean latency (Kleinrock 1979): beyond it waiting grows
faster than throughput. Both have a two-stage bootstrap interval over sweeps and stretches of time
(`metrics/bootstrap.py`; a sweep is a block and its steps are the arms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from experiments.kinds.capacity.steps import Step
from experiments.record.metrics.bootstrap import (
    intervals,
    pooled,
    quantile_value,
    stratum,
    student_half,
)
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, Floats, samples_beyond

QUANTILE = 0.95
ERRORS_MAX = 0.01  # up to this error share, a step's CPU is the cost of its requests
_STRETCH_S = 1.0
_p95 = quantile_value(QUANTILE)


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class NodeCapacity:
    """NodT and knee. If `nodt_per_s` is None, `reason` says why, and `bound_per_s` bounds NodT."""

    nodt_per_s: Interval | None
    knee_per_s: Interval | None
    reason: str
    bound_per_s: float | None


def capacity_of(
    sweeps: Sequence[Sequence[Step]],
    limit_ms: float,
    max_error_share: float,
    rng: np.random.Generator,
) -> NodeCapacity:
    """NodT and knee of one workload.

    Parameters: sweeps, each the same rates in ascending order, with requests in every step;
    limit_ms [ms]; max_error_share, above which the search took a step as beyond the limit too.
    """
    rates = [step.rate_per_s for step in sweeps[0]]
    blocks = [[stratum([step.requests for step in sweep])] for sweep in sweeps]
    figures = intervals(
        blocks,
        {
            "nodt": lambda steps: rate_at_limit(rates, [_p95(step) for step in steps], limit_ms),
            "knee": lambda steps: knee(rates, [float(step.mean()) for step in steps]),
        },
        block_s=_STRETCH_S,
        rng=rng,
    )
    steps = pooled(blocks)
    errors = [_error_share(rate_steps) for rate_steps in zip(*sweeps, strict=True)]
    reason, bound = _explain_missing_nodt(rates, steps, limit_ms, errors, max_error_share)
    nodt = _interval(figures["nodt"]) if not reason else None
    return NodeCapacity(nodt, _interval(figures["knee"]), reason, bound)


def rate_at_limit(rates: Sequence[float], p95_ms: Sequence[float], limit_ms: float) -> float | None:
    """Return the rate at which p95 passes the limit; None where all steps, or none, are
    within it.
    """
    highest = np.maximum.accumulate(np.asarray(p95_ms))
    beyond = int(np.searchsorted(highest, limit_ms, side="right"))
    if beyond == 0 or beyond == len(rates):
        return None
    low, high = math.log(highest[beyond - 1]), math.log(highest[beyond])
    share = (math.log(limit_ms) - low) / (high - low)
    return float(rates[beyond - 1] + share * (rates[beyond] - rates[beyond - 1]))


def knee(rates: Sequence[float], mean_ms: Sequence[float]) -> float:
    """Return the rate of the greatest power; the rate stands for the throughput, which is right
    while the node keeps up.
    """
    power = np.asarray(rates) / np.asarray(mean_ms)
    return float(rates[int(np.argmax(power))])


def _error_share(steps: Sequence[Step]) -> float:
    total = sum(step.requests.height for step in steps)
    return sum(step.error_share * step.requests.height for step in steps) / total


def _explain_missing_nodt(
    rates: Sequence[float],
    steps: Sequence[Floats],
    limit_ms: float,
    errors: Sequence[float],
    max_error_share: float,
) -> tuple[str, float | None]:
    """Return the reason why there is no NodT, and its bound; "" and None where there is one.

    Parameters: steps, the latencies of each rate; errors, the share of failed requests by rate.
    """
    p95_ms = [_p95(step) for step in steps]
    if rate_at_limit(rates, p95_ms, limit_ms) is None:
        if p95_ms[0] > limit_ms:
            text = f"p95 is beyond {limit_ms:g} ms at the first rate already; begin lower"
            return text, rates[0]
        refused = next((n for n, share in enumerate(errors) if share > max_error_share), None)
        if refused is not None:
            text = (
                f"{100 * errors[refused]:.3g} % of requests fail at {rates[refused]:g}/s, "
                f"{100 * max_error_share:g} % are allowed, while p95 stays within {limit_ms:g} ms"
            )
            return (text, rates[refused - 1]) if refused else (f"{text}; begin lower", rates[0])
        return f"p95 stays within {limit_ms:g} ms at every rate that was tried", rates[-1]
    beyond = int(np.searchsorted(np.maximum.accumulate(p95_ms), limit_ms, side="right"))
    for index in (beyond - 1, beyond):
        if samples_beyond(QUANTILE, steps[index].size) < SAMPLES_BEYOND_MIN:
            text = f"fewer than {SAMPLES_BEYOND_MIN} samples lie beyond p95 at {rates[index]:g}/s"
            return f"insufficient: {text}", None
    return "", None


def _interval(bounds: tuple[float, float, float] | None) -> Interval | None:
    return None if bounds is None else Interval(*bounds)


@dataclass(frozen=True)
class Cost:
    """CPU of one request [core s], and of the idle node [cores], by a line through the steps."""

    processing_s: Interval
    idle_cores: float


def cost_of(steps: Sequence[Step], machine: str) -> Cost | None:
    """Return the straight line through CPU against answers per second of the steps within the
    limit.

    None where fewer than three steps have both, or the line does not rise.
    """
    points = [
        (step.answered_per_s, step.cores[machine])
        for step in steps
        if machine in step.cores and step.answered_per_s > 0
    ]
    if len(points) < 3:
        return None
    rate, cores = np.transpose(points)
    if np.ptp(rate) <= 0:
        return None
    line = stats.linregress(rate, cores)
    slope = float(line.slope)
    if slope <= 0:
        return None
    half = float(stats.t.ppf(0.975, len(points) - 2) * line.stderr)
    return Cost(Interval(slope, slope - half, slope + half), float(line.intercept))


@dataclass(frozen=True)
class CpuRatio:
    """CPU of an arm's machine over the first arm's, at the same rates."""

    ratio: Interval
    rates: tuple[float, ...]


def cpu_ratio(
    sweeps: Sequence[Sequence[Step]], first: Sequence[Sequence[Step]], machine: str
) -> CpuRatio | None:
    """Return the cost of the same requests in one arm over that in the first one.

    It is the geometric mean over the rates that every sweep of both arms has, with an error share
    of at most `ERRORS_MAX`; the interval is Student's over the logarithms of sweeps. None if no
    rate or fewer than two sweeps are left.
    """

    def cores_by_rate(arm_sweeps: Sequence[Sequence[Step]]) -> dict[int, dict[float, float]]:
        return {
            sweep[0].setting.sweep: {
                step.rate_per_s: step.cores[machine]
                for step in sweep
                if step.cores.get(machine, 0.0) > 0.0 and step.error_share <= ERRORS_MAX
            }
            for sweep in arm_sweeps
        }

    arm_cores, first_cores = cores_by_rate(sweeps), cores_by_rate(first)
    pairs = [
        (arm_cores[sweep], first_cores[sweep])
        for sweep in sorted(arm_cores.keys() & first_cores.keys())
    ]
    rates = sorted(set.intersection(*({*arm} & {*base} for arm, base in pairs))) if pairs else []
    if not rates or len(pairs) < 2:
        return None
    logs = [
        float(np.mean([math.log(arm[rate] / base[rate]) for rate in rates])) for arm, base in pairs
    ]
    mean = float(np.mean(logs))
    half = student_half(logs)
    ratio = Interval(*(math.exp(log) for log in (mean, mean - half, mean + half)))
    return CpuRatio(ratio, tuple(rates))
