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
    means: Floats = laws @ WEIGHTS
    return means


def variance_of(laws: Floats) -> Floats:
    """Return the variance [s^2] of each law, (n,) of (n, BINS), without that within its bins."""
    variances: Floats = (laws**2) @ WEIGHTS - mean_of(laws) ** 2
    return np.maximum(variances, 0.0)


@lru_cache(maxsize=1024)
def gamma_bins(shape: float, *, fine: bool = False) -> Floats:
    """Return the bins of a gamma law with mean 1 [-], (BINS,); with `fine` three per bin.

    Parameters: shape > 0, the inverse of the squared coefficient of variation.
    """
    from scipy.special import gammainc, gammaincinv

    edges = _FINE if fine else _EDGES
    share: Floats = np.asarray(gammainc(shape + 1.0, gammaincinv(shape, edges[1:-1])), float)
    means = np.diff(share, prepend=0.0, append=1.0) / np.diff(edges)
    bins: Floats = np.maximum.accumulate(means)
    bins.setflags(write=False)
    return bins


def _waits(station: Station, below: Floats) -> Floats:
    laws = [_part_waits(_thin_visits(part, share), below) for share, part in station.parts]
    if len(laws) == 1:
        return laws[0]
    reads, writes = laws  # a page has some of each, one after the other
    return _bin_atoms((reads[:, :, None] + writes[:, None, :]).reshape(len(reads), -1), _PAIRS)


def _thin_visits(station: Station, share: float) -> Station:
    """Return the station with that share of its visits."""
    if share == 1.0:
        return station
    tier = station.tier
    return replace(station, tier=replace(tier, visits=max(LEAST, share * tier.visits)))


def _part_waits(station: Station, below: Floats) -> Floats:
    state, visits = stays(station), station.tier.visits
    if station.replicas > 1:
        return _first_of_copies(station, state, below)
    visit_count = max(1.0, visits)
    unit = gamma_bins(visit_count / station.tier.cv2)
    kinds = [
        (weight, visit_count * state.means_s[counts.index(1)]) for weight, counts in state.mixes
    ]
    waits_below = _sum_visits(below, visit_count)
    atoms = np.concatenate([_sums(mean_s * unit, waits_below) for _, mean_s in kinds], axis=1)
    weights = np.concatenate([weight * _PAIRS for weight, _ in kinds])
    return _thin_laws(_bin_atoms(atoms, weights), visits)


def _first_of_copies(station: Station, state: Stays, below: Floats) -> Floats:
    """Return the first of r copies, each with its own wait below; q visits to the same servers."""
    used = sorted({kind for _, counts in state.mixes for kind, n in enumerate(counts) if n})
    unit, size = gamma_bins(1.0 / station.tier.cv2, fine=True), len(_FINE_PAIRS)
    atoms = np.concatenate([_sums(state.means_s[kind] * unit, below) for kind in used], axis=1)
    order = np.argsort(atoms, axis=1)
    atoms = np.take_along_axis(atoms, order, axis=1)
    slower = {
        kind: _survival_of(np.where(order // size == number, _FINE_PAIRS[order % size], 0.0))
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
            parts.append(_sum_visits(_bin_sorted(atoms, _masses(first)), visits))
    if visits <= 1:
        return _thin_laws(_bin_sorted(atoms, _masses(survival)), visits)
    weights = np.concatenate([weight * WEIGHTS for weight, _ in state.mixes])
    return _bin_atoms(np.concatenate(parts, axis=1), weights)


def _survival_of(masses: Floats) -> Floats:
    """Return P(X > atom) at each atom."""
    survival: Floats = np.maximum(0.0, 1.0 - np.cumsum(masses, axis=1))
    survival[:, -1] = 0.0
    return survival


def _masses(survival: Floats) -> Floats:
    """Return the mass of each atom."""
    masses: Floats = -np.diff(survival, axis=1, prepend=1.0)
    return masses


def _sums(own_stays: Floats, below: Floats) -> Floats:
    """Return all sums of an atom of each: (n, atoms of the own stay * BINS)."""
    sums: Floats = (own_stays[None, :, None] + below[:, None, :]).reshape(len(below), -1)
    return sums


def _sum_visits(laws: Floats, visits: float) -> Floats:
    """Return the law of the sum of `visits` >= 1 independent visits.

    It doubles the law of s visits, 1 <= s < 2.
    """
    doublings = math.floor(math.log2(visits))
    factor = visits / 2.0**doublings
    if factor > 1.0:
        shift = factor - math.sqrt(factor)
        laws = math.sqrt(factor) * laws + shift * mean_of(laws)[:, None]
    for _ in range(doublings):
        pair_sums = (laws[:, :, None] + laws[:, None, :]).reshape(len(laws), -1)
        laws = _bin_atoms(pair_sums, _PAIRS)
    return laws


def _thin_laws(laws: Floats, chance: float) -> Floats:
    """Return the laws with that probability, otherwise 0."""
    if chance >= 1.0:
        return laws
    atoms = np.concatenate([np.zeros((len(laws), 1)), laws], axis=1)
    return _bin_sorted(atoms, np.tile(np.append(1.0 - chance, chance * WEIGHTS), (len(laws), 1)))


def _bin_atoms(atoms: Floats, weights: Floats) -> Floats:
    """Return the means of the quantile bins of discrete laws with common weights."""
    order = np.argsort(atoms, axis=1)
    return _bin_sorted(np.take_along_axis(atoms, order, axis=1), weights[order])


def _bin_sorted(atoms: Floats, weights: Floats) -> Floats:
    """Return the same for ascending atoms with weights: steps of the Lorenz curve."""
    n, size = atoms.shape
    reached = np.cumsum(weights, axis=1)
    reached /= reached[:, -1:]
    moment = np.cumsum(np.diff(reached, axis=1, prepend=0.0) * atoms, axis=1)
    rows = np.arange(n)[:, None]
    edge_positions = (_EDGES[1:-1] + 2.0 * rows).ravel()
    index = (
        np.searchsorted((reached + 2.0 * rows).ravel(), edge_positions).reshape(n, -1) - size * rows
    )
    index = np.minimum(index, size - 1)
    short = np.take_along_axis(reached, index, axis=1) - _EDGES[1:-1]
    edges = np.take_along_axis(moment, index, axis=1) - short * np.take_along_axis(
        atoms, index, axis=1
    )
    lorenz = np.concatenate([np.zeros((n, 1)), edges, moment[:, -1:]], axis=1)
    bins: Floats = np.maximum.accumulate(np.diff(lorenz, axis=1) / WEIGHTS, axis=1)
    return bins
