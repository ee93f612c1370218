r"""Mean and variance of the time that one upstream copy spends in a tier and all tiers below it.

The law is that of `optimizer.latency`: copies are on kinds of servers (mixes), a stay on a kind is
gamma, all visits below are gamma (a mixture of gammas if below is the last tier), the first of r
copies wins. With r = 1 the moments are exact:

    mean = q sum_k w_k (m_k + M),   variance = q (sum_k w_k ((1 + cv2) m_k^2 + 2 m_k M) + V + M^2
                                                  - (sum_k w_k (m_k + M))^2)

with q visits, w_k and m_k the weight and mean of kind k, M and V the moments of what is below. With
more copies the survival of the first is summed over a grid, one per law below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from optimizer.latency import Parts, Station, Stays, stays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_POINTS = 160
_SPREADS = 9.0  # standard deviations that the grid reaches beyond the mean


def tail_above(
    station: Station, mean_s: Floats, variance: Floats, last: Sequence[Parts] | None = None
) -> tuple[Floats, Floats]:
    """The moments of a tier and all below it, for each law below.

    Parameters: mean_s, variance (n,) [s, s^2] of what is below, both > 0; last: its laws, if that
    is the last tier.  Returns: (n,), (n,).
    """
    state, visits = stays(station), station.tier.visits
    if station.replicas == 1:
        first, second = _one_copy(station, state, mean_s, variance)
    else:
        first, second = _first_of_copies(station, state, mean_s, variance, last)
    return visits * first, visits * np.maximum(second - first**2, 1e-12 * first**2)


def _one_copy(
    station: Station, state: Stays, mean_s: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """First and second moment of one copy's time."""
    kinds = [(w, state.means_s[counts.index(1)]) for w, counts in state.mixes]
    own = math.fsum(w * m for w, m in kinds)
    square = math.fsum(w * (1.0 + station.tier.cv2) * m * m for w, m in kinds)
    return own + mean_s, square + 2.0 * own * mean_s + variance + mean_s**2


def _first_of_copies(
    station: Station,
    state: Stays,
    mean_s: Floats,
    variance: Floats,
    last: Sequence[Parts] | None,
) -> tuple[Floats, Floats]:
    """First and second moment of the first of r copies, on a grid of each law's own width."""
    used = sorted({k for _, counts in state.mixes for k, n in enumerate(counts) if n})
    widest = max(state.means_s[k] for k in used)
    spread = np.sqrt(station.tier.cv2 * widest**2 + variance)
    step = (widest + mean_s + _SPREADS * spread) / _POINTS
    below = _masses(mean_s, variance, step) if last is None else _mixtures(last, step)
    ends = {}
    for k in used:
        own = np.full_like(mean_s, state.means_s[k])
        ends[k] = _survival(_masses(own, station.tier.cv2 * own**2, step), below)
    survival = np.zeros((len(mean_s), _POINTS))
    for weight, counts in state.mixes:
        part = np.full_like(survival, weight)
        for k in used:
            if counts[k]:
                part *= ends[k] ** counts[k]
        survival += part
    survival[:, 0] /= 2.0  # trapezoids
    times = np.arange(_POINTS)[None, :] * step[:, None]
    return (survival.sum(axis=1) * step, 2.0 * (survival * times).sum(axis=1) * step)


def _mixtures(last: Sequence[Parts], step: Floats) -> Floats:
    """Masses of mixtures, which may have different numbers of parts."""
    total = np.zeros((len(last), _POINTS))
    for i in range(max(len(parts) for parts in last)):
        some = np.array([len(parts) > i for parts in last])
        weight, mean_s, variance = np.array([parts[i] for parts in last if len(parts) > i]).T
        total[some] += weight[:, None] * _masses(mean_s, variance, step[some])
    return total


def _masses(mean_s: Floats, variance: Floats, step: Floats) -> Floats:
    """Mass of gamma laws on their grids, split between neighbours so that the means are exact."""
    from scipy.special import gammainc, gammaln, xlogy

    shape = (mean_s**2 / variance)[:, None]
    t = np.arange(_POINTS + 1)[None, :] * step[:, None]
    x = t * (mean_s / variance)[:, None]
    share = gammainc(shape, x)
    next_share = share - np.exp(xlogy(shape, x) - x - gammaln(shape + 1.0))  # of shape + 1
    below = t * share - mean_s[:, None] * next_share
    slope = np.diff(below, axis=1, prepend=0.0) / step[:, None]
    mass: Floats = np.diff(slope, axis=1)
    mass[:, 0] = slope[:, 1]
    return mass


def _survival(own: Floats, below: Floats) -> Floats:
    """P(own + below > t) at the grid's times: half of the mass that sits at t is beyond it."""
    from scipy.fft import irfft, rfft

    mass = irfft(rfft(own, 2 * _POINTS) * rfft(below, 2 * _POINTS), 2 * _POINTS)[:, :_POINTS]
    survival: Floats = np.clip(1.0 - np.cumsum(mass, axis=1) + mass / 2.0, 0.0, 1.0)
    return survival
