r"""Slowdown: a ratio with bounds that hold for few repeats, and for waits cut short.

There are few repeats (3 to 20), their distribution is unknown, and a run that was given up has only
a lower limit ("at least"). So the bounds are Moses' (Hollander and Wolfe 1999, ch. 4.3), on ratios.
With n base values b and m faulty values f, each of them a base value times an unknown s, the k-th
smallest of the n m ratios f / b is below s with confidence 1 - P(U <= k - 1). U is Mann and
Whitney's statistic, whose distribution is known exactly. An "at least" value enters the lower bound
as it stands, and the upper bound as infinite, so neither bound claims more than the measurements
show.

Three base runs and three faulty runs give each bound a confidence of at most 1 - 1/20 = 0.95. This
holds if the fault stretches durations without changing the spread of their logarithm. If faulty
runs vary much more than base runs, all three lie above their median in one of eight cases.
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
    """A duration; `at_least` if the wait was cut short before the end."""

    seconds: float
    at_least: bool = False


@dataclass(frozen=True)
class Slowdown:
    """Faulty over base. Each bound holds with the requested confidence."""

    factor: float  # the median of the ratios
    at_least: bool  # True if that median comes from waits cut short
    low: float
    high: float | None  # None: no bound, because waits were cut short


def slowdown(
    base_s: Sequence[float], faulty: Sequence[Duration], confidence: float
) -> Slowdown | None:
    """Return the slowdown with its bounds; None if there are too few values for the confidence.

    Parameters: base_s (n,) float [s] > 0; faulty (m,); confidence of each bound, in (0.5, 1).
    """
    rank = _rank(len(base_s), len(faulty), 1.0 - confidence)
    if rank == 0:
        return None
    lower = sorted(wait.seconds / base for wait in faulty for base in base_s)
    upper = sorted(
        (math.inf if wait.at_least else wait.seconds) / base for wait in faulty for base in base_s
    )
    high = upper[-rank]
    return Slowdown(
        factor=float(np.median(lower)),
        at_least=math.isinf(upper[len(upper) // 2]),
        low=lower[rank - 1],
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
    """Number of orders of n and m values in which U is u (Mann and Whitney 1947)."""
    if u < 0:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return _orders_with(u - m, n - 1, m) + _orders_with(u, n, m - 1)


def median(waits: Sequence[Duration]) -> Duration:
    """Return the median by Kaplan and Meier; "at least" if too many waits were cut short to have
    one.

    Parameters: waits (n,), n >= 1.
    """
    seconds = np.array([wait.seconds for wait in waits])
    cut = np.array([wait.at_least for wait in waits])
    if not cut.any():
        return Duration(float(np.median(seconds)))
    if cut.all():
        return Duration(float(seconds.max()), at_least=True)
    survival = stats.ecdf(stats.CensoredData.right_censored(seconds, cut)).sf
    reached = np.flatnonzero(survival.probabilities <= 0.5)
    if reached.size:
        return Duration(float(survival.quantiles[reached[0]]))
    return Duration(float(seconds.max()), at_least=True)
