r"""The test of a candidate r against the current one, on latencies of interleaved windows.

Both r get windows in turn (A B, B A, ...). The two windows of a pair have the same arrivals, pages
and neighbours, so a stretch of time in one corresponds to a stretch in the other. Under the
hypothesis that r makes no difference the two may be exchanged: a permutation test (Fisher 1935; for
dependent data with whole stretches as the units) exchanges random stretches, and counts how often

    T = log(target of candidate / target of current)

over all requests is as low as the observed value. Stretches are as long as a neighbour's burst,
because latencies within a burst are not independent.

The test is repeated after every pair, and each look may err. So the allowed error is divided over
the looks (`core.statistics.sequential`). If no look decides within the budget the result is
`insufficient`: the candidate is not taken, because Alg. 1 moves only on a lower target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import MeasurementFailed
from core.statistics.percentiles import rank_of
from experiments.kinds.tune.section import Target
from experiments.record.metrics.bootstrap import Sample, Stratum, Value, intervals
from experiments.record.metrics.improvement import STATISTICS
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, Floats, samples_beyond

Verdict = Literal["better", "worse", "insufficient", "not steady"]
PERMUTATIONS = 1000
_STRETCHES_MIN = 4  # of a window
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """A window's latencies by the intended start, ascending, in seconds since its start."""

    length_s: float
    at_s: Floats
    latency_ms: Floats

    def after(self, from_s: float) -> Window:
        """Return the window without its first `from_s` seconds."""
        keep = self.at_s >= from_s
        rest_s = self.length_s - from_s
        return Window(rest_s, self.at_s[keep] - from_s, self.latency_ms[keep])


Pair = tuple[Window, Window]  # of the current r, of the candidate


@dataclass(frozen=True)
class Significance:
    """The evidence of all pairs so far."""

    p_better: float  # probability of such a low ratio if r made no difference
    p_worse: float
    samples: int  # of the arm with fewer
    enough: bool  # ten samples beyond the percentile

    def verdict(self, error: float) -> Verdict:
        """Return the verdict with the allowed error of this look."""
        if self.enough and self.p_better <= error:
            return "better"
        if self.enough and self.p_worse <= error:
            return "worse"
        return "insufficient"


@dataclass(frozen=True)
class Ratio:
    """candidate / current with its 95 % interval: below 1 the candidate is faster."""

    ratio: float
    ratio_low: float
    ratio_high: float


def stretch_s(length_s: float, burst_s: float) -> float:
    """Return the length of a stretch: a neighbour's mean burst, if several fit into a window."""
    return min(max(burst_s, 1.0), length_s / _STRETCHES_MIN)


def significance(
    pairs: Sequence[Pair], target: Target, unit_s: float, rng: np.random.Generator
) -> Significance:
    """Return the permutation test over all pairs.

    Parameters: pairs in the steady state; target "mean" | "p95" | "p99"; unit_s float [s] > 0, the
    length of a stretch.
    Raises: MeasurementFailed if an arm has no request.
    """
    _, quantile = STATISTICS[target]
    latency_ms, unit, is_candidate = _flatten(pairs, unit_s)
    samples = int(min(is_candidate.sum(), (~is_candidate).sum()))
    if samples == 0:
        raise MeasurementFailed(
            "a comparison",
            expected="requests in both arms",
            got="none in one",
            hint="Let windows be longer, or the rate higher.",
        )
    order = np.argsort(latency_ms)
    latency_ms, unit, is_candidate = latency_ms[order], unit[order], is_candidate[order]
    swaps = rng.random((PERMUTATIONS, int(unit.max()) + 1)) < 0.5
    swaps[0] = False  # the measured arrangement is one of the possible ones
    log_ratios = np.concatenate([
        _log_ratios(latency_ms, is_candidate ^ chunk[:, unit], quantile)
        for chunk in np.array_split(swaps, 20)
    ])  # fmt: skip
    return Significance(
        p_better=float((log_ratios <= log_ratios[0] + 1e-12).mean()),
        p_worse=float((log_ratios >= log_ratios[0] - 1e-12).mean()),
        samples=samples,
        enough=quantile is None or samples_beyond(quantile, samples) >= SAMPLES_BEYOND_MIN,
    )


def _log_ratios(ascending_ms: Floats, candidate: Mask, quantile: float | None) -> Floats:
    """Return log(target of the candidate / target of the current) of each arrangement,
    (arrangements,).

    Parameters: ascending_ms (n,); candidate (arrangements, n), True for the candidate's latencies.
    """
    sides = (candidate, ~candidate)
    counts = [side.sum(axis=1) for side in sides]
    if quantile is None:
        values = [
            side @ ascending_ms / np.maximum(n, 1) for side, n in zip(sides, counts, strict=True)
        ]
    else:
        ranks = [np.array([rank_of(quantile, int(size)) for size in n]) for n in counts]
        values = [
            ascending_ms[np.argmax(np.cumsum(side, axis=1) >= rank[:, None], axis=1)]
            for side, rank in zip(sides, ranks, strict=True)
        ]
    ratios = np.log(values[0]) - np.log(values[1])
    return np.where((counts[0] > 0) & (counts[1] > 0), ratios, 0.0)


def _flatten(pairs: Sequence[Pair], unit_s: float) -> tuple[Floats, NDArray[np.int64], Mask]:
    """Return the latencies of all pairs, each with the number of its stretch and whether it is the
    candidate's.

    The two windows of a pair share the numbers of their stretches.
    """
    latencies, units, arms = [], [], []
    first = 0
    for pair in pairs:
        length_s = min(window.length_s for window in pair)
        count = max(1, round(length_s / unit_s))
        for arm, window in enumerate(pair):
            inside = window.at_s < length_s
            unit = np.floor(window.at_s[inside] / length_s * count).astype(np.int64)
            latencies.append(window.latency_ms[inside])
            units.append(first + np.minimum(unit, count - 1))
            arms.append(np.full(unit.size, arm == 1))
        first += count
    return np.concatenate(latencies), np.concatenate(units), np.concatenate(arms)


def ratio(pairs: Sequence[Pair], target: Target, unit_s: float, rng: np.random.Generator) -> Ratio:
    """candidate / current with its interval."""
    statistic, _ = STATISTICS[target]

    def value(arms: Sequence[Floats]) -> float | None:
        current, candidate = (statistic(arm) for arm in arms)
        return candidate / current if current > 0 and candidate > 0 else None

    return Ratio(*_interval(pairs, value, unit_s, rng))


def estimate(
    windows: Sequence[Window], target: Target, unit_s: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the target of one r over all its windows, with its 95 % interval [ms]."""
    statistic, _ = STATISTICS[target]
    groups = [(window,) for window in windows]
    return _interval(groups, lambda arms: statistic(arms[0]), unit_s, rng)


def _interval(
    windows: Sequence[tuple[Window, ...]], value: Value, unit_s: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return a figure with its interval, by the reports' bootstrap of stretches of time.

    Every window is a stratum of one block, so the variation between windows is not resampled: with
    two or three windows such an interval would be too wide to use. The interval holds for these
    windows only, as the permutation test does.
    """
    strata = [_stratum(window) for window in windows]
    figure = intervals([strata], {"value": value}, block_s=unit_s, rng=rng)["value"]
    assert figure is not None  # latencies are above 0
    return figure


def _stratum(windows: Sequence[Window]) -> Stratum:
    length_s = min(window.length_s for window in windows)
    return Stratum(length_s, tuple(Sample(w.at_s, w.latency_ms) for w in windows))
