r"""Group-sequential looks at growing data, with the allowed error spent over them.

A test at 5 % that is repeated after every pair errs at some look far more often than in 5 %. So the
error alpha is spent: when a share t of the largest sample has been measured, looks may have erred
with probability alpha ln(1 + (e - 1) t) (Lan & DeMets 1983, Pocock's type, which finds large
effects early). The looks see sums S(t) of one Brownian motion, so look k's boundary c_k solves

    P(|S(t_j)| < c_j sqrt(t_j) for j < k, |S(t_k)| >= c_k sqrt(t_k)) = alpha*(t_k) - alpha*(t_{k-1})

which is integrated forwards over a grid (Armitage, McPherson & Rowe 1969). A look's level is
2 - 2 Phi(c_k): a test, or an interval, of any kind is made at that level (Pocock 1977). Such
intervals hold at all looks together with probability 1 - alpha, for any reason to stop (repeated
confidence intervals, Jennison & Turnbull 2000, chapter 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import optimize, stats

from core.arrays import Floats

Decision = Literal["faster", "slower", "equivalent"]

_GRID = 401
_FURTHEST = 8.0  # standard deviations


def spent_error(share: float, error: float) -> float:
    """Return the error that may be spent by a share of the largest sample.

    Parameters: share in (0, 1]; error in (0, 1), of all looks together. Source: Lan & DeMets 1983.
    """
    return error * math.log1p((math.e - 1.0) * share)


def look_levels(shares: Sequence[float], error: float, *, ends: bool = False) -> tuple[float, ...]:
    """Return the two-sided level of each look, in order.

    Parameters: shares of the largest sample, ascending in (0, 1]; error in (0, 1), of all looks
    together; ends, true if the last of these looks is the last of all: it spends the remaining
    error, also if the sample stayed below the largest. Source: Armitage, McPherson & Rowe 1969.
    """
    allowed = [spent_error(share, error) for share in shares]
    if ends:
        allowed[-1] = error
    levels: list[float] = []
    sums: Floats = np.zeros(1)  # S(0) = 0
    density: Floats = np.ones(1)
    before_share = spent_before = 0.0
    for share, total in zip(shares, allowed, strict=True):
        spread, root = math.sqrt(share - before_share), math.sqrt(share)

        bound = _bound(total - spent_before, sums, density, spread, root)
        levels.append(float(2.0 * stats.norm.sf(bound)))
        grid = np.linspace(-bound * root, bound * root, _GRID)
        weights = np.full(_GRID, grid[1] - grid[0])
        weights[[0, -1]] /= 2.0  # trapezoids
        step_density = stats.norm.pdf((grid[:, None] - sums[None, :]) / spread) / spread
        sums, density = grid, weights * (step_density @ density)
        before_share, spent_before = share, total
    return tuple(levels)


def _bound(step: float, sums: Floats, density: Floats, spread: float, root: float) -> float:
    """Return the bound that S exceeds with probability `step`, by its density at the last look."""

    def excess(bound: float) -> float:
        above = stats.norm.sf((bound * root - sums) / spread)
        below = stats.norm.cdf((-bound * root - sums) / spread)
        return float(density @ (above + below)) - step

    return float(optimize.brentq(excess, 0.0, _FURTHEST))


def decision(low: float, high: float, margin: float) -> Decision | None:
    """Return the decision that a factor's interval allows, else None: the interval excludes 1, or
    lies between 1 / (1 + margin) and 1 + margin.

    Parameters: low and high, the interval of a ratio [-]; margin [-], above 0.
    """
    if low > 1.0:
        return "faster"
    if high < 1.0:
        return "slower"
    if 1.0 / (1.0 + margin) <= low and high <= 1.0 + margin:
        return "equivalent"
    return None


def look_times(first: int, last: int, looks: int) -> tuple[int, ...]:
    """Return the times of looks: `looks` whole numbers from first to last, evenly spaced; fewer if
    the range is too short.
    """
    if looks == 1:
        return (last,)
    return tuple(sorted({round(point) for point in np.linspace(first, last, looks)}))
