r"""The law of an upstream copy's wait: a tier's visits, with their waits for the tiers below.

A law is stored as the means x_1 <= ... <= x_K of its quantile bins, of fixed probabilities
w_1 ... w_K. Each step maps laws to laws and keeps the usual stochastic order exactly: if X is never
slower than Y (x_j <= y_j in every bin), the result for X is never slower. Means are kept as well.

  own stay       gamma on each kind of server (`station`): its bins, times the kind's mean
  own + below    all sums of an atom of each
  first of r     S(t) = prod_kind S_kind(t)^(copies there), at the sorted atoms
  kinds of mix   a mixture: slowed and whole servers are separate in every tier
  q visits       of a page, to the same servers. q < 1: the visit is made with probability q. Else
                 with q = s 2^k, 1 <= s < 2:  X_s = s m + sqrt(s) (X - m), with the mean and the
                 variance of s visits; then k times the sum of two. r = 1: the own stays are gamma
                 with q times mean and variance, and only the waits below are summed in this way
  writes         if reads are copied: the sum of the copied and of the single visits
  back to bins   the means of the quantile bins, narrow near the percentiles in use; they lose a few
                 per cent of the variance

So if no server of any tier has a longer stay, no percentile of the page is larger. (One gamma law
with a tier's mean and variance does not have this property: a server that is overloaded while it is
slowed gives it a huge variance, and so a small p95.)
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from core.arrays import Floats
from core.errors import LEAST
from optimizer.latency.station import Station, Stays, stays

_BODY = (0.0, 0.1, 0.25, 0.45, 0.62, 0.77, 0.87, 0.92, 0.945, 0.96)
_TAIL = (0.97, 0.978, 0.984, 0.988, 0.991, 0.994, 0.997, 0.999, 1.0)
_EDGES: Floats = np.array((*_BODY, *_TAIL))
WEIGHTS: Floats = np.diff(_EDGES)
BINS = len(WEIGHTS)
_PAIRS: Floats = np.outer(WEIGHTS, WEIGHTS).ravel()
_PARTS = 3  # of a bin, of the own stays that race
_FINE: Floats = np.append(0.0, np.cumsum(np.repeat(WEIGHTS / _PARTS, _PARTS)))
_FINE_PAIRS: Floats = np.outer(np.diff(_FINE), WEIGHTS).ravel()
_AT_ONCE = 1024  # laws


def waits(station: Station, below: Floats | None = None) -> Floats:
    """Return the bins [s] of the visits to a tier, for each law of the waits below it.

    Parameters: station; below (n, BINS) [s], or None for the last tier.
    Returns: (n, BINS) [s], n = 1 without below.  Raises: as `stays`.
    """
    if below is None:
        return _waits(station, np.zeros((1, BINS)))
    parts = [_waits(station, below[i : i + _AT_ONCE]) for i in range(0, len(below), _AT_ONCE)]
    return np.concatenate(parts) if parts else below


def mean_of(laws: Floats) -> Floats:
    """Return the mean [s] of each law, (n,) of (n, BINS)."""
    found: Floats = laws @ WEIGHTS
    return found


def variance_of(laws: Floats) -> Floats:
    """Return the variance [s^2] of each law, (n,) of (n, BINS), without that within its bins."""
    found: Floats = (laws**2) @ WEIGHTS - mean_of(laws) ** 2
    return np.maximum(found, 0.0)


@lru_cache(maxsize=1024)
def gamma_bins(shape: float, *, fine: bool = False) -> Floats:
    """Return the bins of a gamma law with mean 1 [-], (BINS,); with `fine` three per bin.

    Parameters: shape > 0, the inverse of the squared coefficient of variation.
    """
    from scipy.special import gammainc, gammaincinv

    edges = _FINE if fine else _EDGES
    share: Floats = np.asarray(gammainc(shape + 1.0, gammaincinv(shape, edges[1:-1])), float)
    means = np.diff(share, prepend=0.0, append=1.0) / np.diff(edges)
    found: Floats = np.maximum.accumulate(means)
    found.setflags(write=False)
    return found


def _waits(station: Station, below: Floats) -> Floats:
    laws = [_of_part(_thinner(part, share), below) for share, part in station.parts]
    if len(laws) == 1:
        return laws[0]
    reads, writes = laws  # a page has some of each, one after the other
    return _binned((reads[:, :, None] + writes[:, None, :]).reshape(len(reads), -1), _PAIRS)


def _thinner(station: Station, share: float) -> Station:
    """Return the station with that share of its visits."""
    if share == 1.0:
        return station
    tier = station.tier
    return replace(station, tier=replace(tier, visits=max(LEAST, share * tier.visits)))


def _of_part(station: Station, below: Floats) -> Floats:
    state, visits = stays(station), station.tier.visits
    if station.replicas > 1:
        return _first_of_copies(station, state, below)
    some = max(1.0, visits)
    unit = gamma_bins(some / station.tier.cv2)
    kinds = [(weight, some * state.means_s[counts.index(1)]) for weight, counts in state.mixes]
    waited = _summed(below, some)
    atoms = np.concatenate([_sums(mean_s * unit, waited) for _, mean_s in kinds], axis=1)
    weights = np.concatenate([weight * _PAIRS for weight, _ in kinds])
    return _thinned(_binned(atoms, weights), visits)


def _first_of_copies(station: Station, state: Stays, below: Floats) -> Floats:
    """Return the first of r copies, each with its own wait below; q visits to the same servers."""
    used = sorted({kind for _, counts in state.mixes for kind, n in enumerate(counts) if n})
    unit, size = gamma_bins(1.0 / station.tier.cv2, fine=True), len(_FINE_PAIRS)
    atoms = np.concatenate([_sums(state.means_s[kind] * unit, below) for kind in used], axis=1)
    order = np.argsort(atoms, axis=1)
    atoms = np.take_along_axis(atoms, order, axis=1)
    slower = {
        kind: _beyond(np.where(order // size == number, _FINE_PAIRS[order % size], 0.0))
        for number, kind in enumerate(used)
    }
    visits, parts = station.tier.visits, []
    survival = np.zeros_like(atoms)
    for weight, counts in state.mixes:
        first = np.ones_like(atoms)
        for kind in used:
            if counts[kind]:
                first *= slower[kind] ** counts[kind]
        if visits <= 1:
            survival += weight * first
        else:
            parts.append(_summed(_of_sorted(atoms, _masses(first)), visits))
    if visits <= 1:
        return _thinned(_of_sorted(atoms, _masses(survival)), visits)
    weights = np.concatenate([weight * WEIGHTS for weight, _ in state.mixes])
    return _binned(np.concatenate(parts, axis=1), weights)


def _beyond(masses: Floats) -> Floats:
    """P(X > atom) at each atom."""
    found: Floats = np.maximum(0.0, 1.0 - np.cumsum(masses, axis=1))
    found[:, -1] = 0.0
    return found


def _masses(survival: Floats) -> Floats:
    """Return the mass of each atom."""
    found: Floats = -np.diff(survival, axis=1, prepend=1.0)
    return found


def _sums(own: Floats, below: Floats) -> Floats:
    """Return all sums of an atom of each: (n, atoms of the own stay * BINS)."""
    found: Floats = (own[None, :, None] + below[:, None, :]).reshape(len(below), -1)
    return found


def _summed(laws: Floats, visits: float) -> Floats:
    """Return the law of the sum of `visits` >= 1 independent visits: doublings of s visits, 1 <= s
    < 2.
    """
    doublings = math.floor(math.log2(visits))
    some = visits / 2.0**doublings
    if some > 1.0:
        more = some - math.sqrt(some)
        laws = math.sqrt(some) * laws + more * mean_of(laws)[:, None]
    for _ in range(doublings):
        both = (laws[:, :, None] + laws[:, None, :]).reshape(len(laws), -1)
        laws = _binned(both, _PAIRS)
    return laws


def _thinned(laws: Floats, chance: float) -> Floats:
    """Return the laws with that probability, otherwise 0."""
    if chance >= 1.0:
        return laws
    atoms = np.concatenate([np.zeros((len(laws), 1)), laws], axis=1)
    return _of_sorted(atoms, np.tile(np.append(1.0 - chance, chance * WEIGHTS), (len(laws), 1)))


def _binned(atoms: Floats, weights: Floats) -> Floats:
    """Return the means of the quantile bins of discrete laws with common weights."""
    order = np.argsort(atoms, axis=1)
    return _of_sorted(np.take_along_axis(atoms, order, axis=1), weights[order])


def _of_sorted(atoms: Floats, weights: Floats) -> Floats:
    """Return the same for ascending atoms with weights: steps of the Lorenz curve."""
    n, size = atoms.shape
    reached = np.cumsum(weights, axis=1)
    reached /= reached[:, -1:]
    moment = np.cumsum(np.diff(reached, axis=1, prepend=0.0) * atoms, axis=1)
    rows = np.arange(n)[:, None]
    asked = (_EDGES[1:-1] + 2.0 * rows).ravel()
    at = np.searchsorted((reached + 2.0 * rows).ravel(), asked).reshape(n, -1) - size * rows
    at = np.minimum(at, size - 1)
    short = np.take_along_axis(reached, at, axis=1) - _EDGES[1:-1]
    edges = np.take_along_axis(moment, at, axis=1) - short * np.take_along_axis(atoms, at, axis=1)
    whole = np.concatenate([np.zeros((n, 1)), edges, moment[:, -1:]], axis=1)
    found: Floats = np.maximum.accumulate(np.diff(whole, axis=1) / WEIGHTS, axis=1)
    return found
