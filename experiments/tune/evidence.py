r"""Is the candidate faster than the current r? A test on latencies of interleaved windows.

Both r get windows in turn (A B, B A, ...). The two windows of a pair have the same arrivals, pages
and neighbours, so a stretch of time in one has its like in the other. Under the hypothesis that r
makes no difference the two could change places: a permutation test (Fisher 1935; for dependent
data with whole stretches as the units) draws at random which stretches do, and asks how often

    T = log(target of candidate / target of current)

over all requests comes out as low as it did. Stretches are as long as a neighbour's burst, since
within one latencies are not independent.

The test is looked at after every pair, and each look may err. So the allowed error is split evenly
over the looks (Bonferroni), which is safe and a little slow. What no look decides within the budget
is `insufficient`: the candidate is then not taken, for Alg. 1 moves only on a lower target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.metrics.bootstrap import Sample, Stratum, intervals
from experiments.metrics.improvement import STATISTICS
from experiments.metrics.latency import SAMPLES_BEYOND_MIN, Floats, samples_beyond

Target = Literal["mean", "p95", "p99"]
Verdict = Literal["better", "worse", "insufficient", "not steady"]
PERMUTATIONS = 2000
_STRETCHES_MIN = 4  # of a window


@dataclass(frozen=True)
class Window:
    """A window's latencies by the intended start, ascending, in seconds since its start."""

    length_s: float
    at_s: Floats
    latency_ms: Floats

    def after(self, from_s: float) -> Window:
        """Without the first `from_s` seconds."""
        keep = self.at_s >= from_s
        left_s = self.length_s - from_s
        return Window(left_s, self.at_s[keep] - from_s, self.latency_ms[keep])


Pair = tuple[Window, Window]  # of the current r, of the candidate


@dataclass(frozen=True)
class Evidence:
    """What all pairs so far say. ratio: candidate / current, below 1 the candidate is faster."""

    ratio: float
    ratio_low: float
    ratio_high: float
    p_better: float  # of a ratio this low or lower, if r made no difference
    p_worse: float
    samples: int  # of the arm with fewer
    enough: bool  # ten samples beyond the percentile

    def verdict(self, error: float) -> Verdict:
        """With an allowed error of this look."""
        if self.enough and self.p_better <= error:
            return "better"
        if self.enough and self.p_worse <= error:
            return "worse"
        return "insufficient"


def stretch_s(length_s: float, burst_s: float) -> float:
    """How long a stretch is: a neighbour's mean burst, if a window holds several of it."""
    return min(max(burst_s, 1.0), length_s / _STRETCHES_MIN)


def weigh(
    pairs: Sequence[Pair], target: Target, unit_s: float, rng: np.random.Generator
) -> Evidence | None:
    """The evidence of all pairs; None where an arm has no request.

    Parameters: pairs without what is not steady; target "mean" | "p95" | "p99"; unit_s float [s]
    > 0, the length of a stretch.
    """
    statistic, quantile = STATISTICS[target]
    latency_ms, unit, is_candidate = _flattened(pairs, unit_s)
    samples = int(min(is_candidate.sum(), (~is_candidate).sum()))
    if samples == 0:
        return None

    def log_ratio(candidate: np.ndarray) -> float:
        ours, theirs = latency_ms[candidate], latency_ms[~candidate]
        if ours.size == 0 or theirs.size == 0:
            return 0.0
        return float(np.log(statistic(ours)) - np.log(statistic(theirs)))

    seen = log_ratio(is_candidate)
    swaps = rng.random((PERMUTATIONS, int(unit.max()) + 1)) < 0.5
    drawn = np.array([log_ratio(is_candidate ^ swap[unit]) for swap in swaps])
    ratio, low, high = _interval(pairs, target, unit_s, rng)
    return Evidence(
        ratio,
        low,
        high,
        p_better=_share(drawn <= seen + 1e-12),
        p_worse=_share(drawn >= seen - 1e-12),
        samples=samples,
        enough=quantile is None or samples_beyond(quantile, samples) >= SAMPLES_BEYOND_MIN,
    )


def _share(as_extreme: np.ndarray) -> float:
    """A permutation test's p: the arrangement that was seen is one of those possible."""
    return float((as_extreme.sum() + 1) / (as_extreme.size + 1))


def _flattened(pairs: Sequence[Pair], unit_s: float) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Latencies of all pairs, the number of each one's stretch, and whether it is the candidate's.

    The two windows of a pair share the numbers of their stretches.
    """
    latencies, units, arms = [], [], []
    first = 0
    for pair in pairs:
        length_s = min(window.length_s for window in pair)
        count = max(1, round(length_s / unit_s))
        for arm, window in enumerate(pair):
            inside = window.at_s < length_s
            place = np.floor(window.at_s[inside] / length_s * count).astype(np.int64)
            latencies.append(window.latency_ms[inside])
            units.append(first + np.minimum(place, count - 1))
            arms.append(np.full(place.size, arm == 1))
        first += count
    return np.concatenate(latencies), np.concatenate(units), np.concatenate(arms)


def _interval(
    pairs: Sequence[Pair], target: Target, unit_s: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """candidate / current with its 95 % interval, by the two-stage bootstrap of the reports."""
    statistic, _ = STATISTICS[target]

    def value(arms: Sequence[Floats]) -> float | None:
        current, candidate = (statistic(arm) for arm in arms)
        return candidate / current if current > 0 and candidate > 0 else None

    found = intervals(
        [[_stratum(pair)] for pair in pairs], {"ratio": value}, block_s=unit_s, rng=rng
    )["ratio"]
    return found if found is not None else (float("nan"),) * 3


def estimate(
    windows: Sequence[Window], target: Target, unit_s: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """The target of one r over all its windows, with its 95 % interval [ms]."""
    statistic, _ = STATISTICS[target]
    found = intervals(
        [[_stratum((window,))] for window in windows],
        {"value": lambda arms: statistic(arms[0])},
        block_s=unit_s,
        rng=rng,
    )["value"]
    assert found is not None  # the statistic of a sample that is not empty is a number
    return found


def _stratum(windows: Sequence[Window]) -> Stratum:
    length_s = min(window.length_s for window in windows)
    return Stratum(length_s, tuple(Sample(w.at_s, w.latency_ms) for w in windows))
