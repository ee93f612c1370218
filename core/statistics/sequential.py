r"""Group-sequential looks at growing data, with the allowed error spent over them.

A test at 5 % that is looked at after every pair errs at some look far more often than in 5 %. So
the error alpha is spent: by the time a share t of the largest sample is there, looks may have erred
with probability alpha ln(1 + (e - 1) t) (Lan & DeMets 1983, Pocock's type: large effects are to be
seen early). The looks see sums S(t) of one Brownian motion, so look k's boundary c_k solves

    P(|S(t_j)| < c_j sqrt(t_j) for j < k, |S(t_k)| >= c_k sqrt(t_k)) = alpha*(t_k) - alpha*(t_{k-1})

which is integrated forwards over a grid (Armitage, McPherson & Rowe 1969). A look's level is
2 - 2 Phi(c_k): a test, or an interval, of any kind is made at that level (Pocock 1977). Intervals
made so at every look hold all at once with 1 - alpha, whatever the reason to stop is (repeated
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


def spent(share: float, error: float) -> float:
    """The error that may be spent by a share in (0, 1] of the largest sample."""
    return error * math.log1p((math.e - 1.0) * share)


def look_levels(shares: Sequence[float], error: float, *, ends: bool = False) -> tuple[float, ...]:
    """The two-sided level of each look, in order.

    Parameters: shares of the largest sample, ascending in (0, 1]; error in (0, 1), of all looks
    together; ends, whether the last of these is the last of all: what is left is spent at it, also
    where the sample stayed below its largest.
    """
    allowed = [spent(share, error) for share in shares]
    if ends:
        allowed[-1] = error
    levels: list[float] = []
    at: Floats = np.zeros(1)  # S(0) = 0
    density: Floats = np.ones(1)
    before_share = before = 0.0
    for share, total in zip(shares, allowed, strict=True):
        spread, root = math.sqrt(share - before_share), math.sqrt(share)

        bound = _bound(total - before, at, density, spread, root)
        levels.append(float(2.0 * stats.norm.sf(bound)))
        grid = np.linspace(-bound * root, bound * root, _GRID)
        weights = np.full(_GRID, grid[1] - grid[0])
        weights[[0, -1]] /= 2.0  # trapezoids
        step_density = stats.norm.pdf((grid[:, None] - at[None, :]) / spread) / spread
        at, density = grid, weights * (step_density @ density)
        before_share, before = share, total
    return tuple(levels)


def _bound(step: float, at: Floats, density: Floats, spread: float, root: float) -> float:
    """The c beyond which S lies with probability `step`, given where it was and how likely."""

    def too_often(bound: float) -> float:
        above = stats.norm.sf((bound * root - at) / spread)
        below = stats.norm.cdf((-bound * root - at) / spread)
        return float(density @ (above + below)) - step

    return float(optimize.brentq(too_often, 0.0, _FURTHEST))


def decision(low: float, high: float, margin: float) -> Decision | None:
    """A factor's interval as an answer: it leaves 1 out, or lies within 1 / (1 + margin) and
    1 + margin; else None."""
    if low > 1.0:
        return "faster"
    if high < 1.0:
        return "slower"
    if 1.0 / (1.0 + margin) <= low and high <= 1.0 + margin:
        return "equivalent"
    return None


def look_times(first: int, last: int, looks: int) -> tuple[int, ...]:
    """When to look: `looks` whole numbers from first to last, as even as they can be; fewer where
    there are not so many."""
    if looks == 1:
        return (last,)
    return tuple(sorted({round(one) for one in np.linspace(first, last, looks)}))
