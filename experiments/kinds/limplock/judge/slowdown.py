r"""Slowdown: a ratio with bounds that hold for few repeats, and for waits cut short.

Repeats are few (3 to 20), their distribution is unknown, and a run that was given up says only "at
least". So the bounds are Moses' (Hollander and Wolfe 1999, ch. 4.3), on ratios: with n base values
b and m faulty values f, of which each is a base value times an unknown s, the k-th smallest of the
n m ratios f / b is below s with confidence 1 - P(U <= k - 1), where U is Mann and Whitney's
statistic, whose distribution is known exactly. A value that is only "at least" enters the lower
bound as it stands, and the upper one as infinite, so neither bound claims more than was seen.

Three base runs and three faulty ones give 1 - 1/20 = 0.95 a bound, and no more. That is so where
the fault stretches durations and leaves the spread of their logarithm as it was. Where faulty runs
differ much more than base ones, all three lie above their median once in eight times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Duration:
    """A duration; `at_least` where the wait was cut short before the end."""

    seconds: float
    at_least: bool = False


@dataclass(frozen=True)
class Slowdown:
    """Faulty over base. Each bound holds with the confidence that was asked for."""

    factor: float  # the median of the ratios
    at_least: bool  # whether that median is of waits cut short
    low: float
    high: float | None  # None: there is no bound, for waits were cut short


def slowdown(
    base_s: Sequence[float], faulty: Sequence[Duration], confidence: float
) -> Slowdown | None:
    """Return the slowdown with its bounds; None if there are too few values to be that sure.

    Parameters: base_s (n,) float [s] > 0; faulty (m,); confidence of each bound, in (0.5, 1).
    """
    rank = _rank(len(base_s), len(faulty), 1.0 - confidence)
    if rank == 0:
        return None
    least = sorted(one.seconds / base for one in faulty for base in base_s)
    most = sorted(
        (math.inf if one.at_least else one.seconds) / base for one in faulty for base in base_s
    )
    high = most[-rank]
    return Slowdown(
        factor=float(np.median(least)),
        at_least=math.isinf(most[len(most) // 2]),
        low=least[rank - 1],
        high=None if math.isinf(high) else high,
    )


def _rank(n: int, m: int, error: float) -> int:
    """Return the largest k with P(U <= k - 1) <= error; 0 if there is none."""
    orders, below, k = math.comb(n + m, n), 0, 0
    while k < n * m:
        below += _orders_with(k, n, m)
        if below / orders > error + _ROUNDING:
            break
        k += 1
    return k


@cache
def _orders_with(u: int, n: int, m: int) -> int:
    """In how many orders of n and m values U is u (Mann and Whitney 1947)."""
    if u < 0:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return _orders_with(u - m, n - 1, m) + _orders_with(u, n, m - 1)


def median(waits: Sequence[Duration]) -> Duration:
    """Return the median by Kaplan and Meier, "at least" where too many waits were cut short to have
    one.

    Parameters: waits (n,), n >= 1.
    """
    seconds = np.array([one.seconds for one in waits])
    cut = np.array([one.at_least for one in waits])
    if not cut.any():
        return Duration(float(np.median(seconds)))
    if cut.all():
        return Duration(float(seconds.max()), at_least=True)
    left = stats.ecdf(stats.CensoredData.right_censored(seconds, cut)).sf
    reached = np.flatnonzero(left.probabilities <= 0.5)
    if reached.size:
        return Duration(float(left.quantiles[reached[0]]))
    return Duration(float(seconds.max()), at_least=True)
