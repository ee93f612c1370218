r"""Latency of a page over a chain of tiers, for fleets that nobody measured: an approximation.

Per tier, with M servers of c = V cores, r replicas, policy, copies arriving at lambda r / M per
server:

  state j of a server   undisturbed, or (a share f of time) slowed to gamma of its speed
  load                  rho = lambda r T / (M V); round-robin: rho_slow = rho / gamma;
                        TAD shares by speed: rho_j = rho / (1 - f (1 - gamma)) in both states
                        (sPARE 4.2)
  mean stay             processor sharing, a copy gets min(1, V / n) of a core:
                        R_j = T / (v_j) (1 + rho_j^(sqrt(2 (c + 1)) - 1) / (c (1 - rho_j))),
                        c = max(1, V), v = min(1, V) [* gamma]
                        (Sakasegawa's M/M/c mean, the same for processor sharing)
  overload in a run     rho_j is held at 0.97; a backlog of (rho_j - 0.97) run / 2 is added, once
                        per page (its queries wait for each other, so their rate falls)
  law of the stay       gamma with mean R_j and the measured squared coefficient of variation
  slow ones among r     round-robin: Bin(r, f); TAD takes free fast servers first:
                        max(0, r - F), F ~ Bin(M, (1 - f)(1 - rho))
  first of r wins       S(t) = S_fast^(r - k) S_slow^k, copies independent
  q queries per page    on the connection's r servers: gamma with q times mean and variance, per k
  page                  own stay + the time of the backend, convolved on a grid; first of r1 wins

Times of cancelled losers, collisions between copies of one page and the arbiter itself are not in
the model; what they cost at the measured arms is in the calibration factor
(`optimizer.plan.evidence`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InputError, UnstableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_RHO_MAX = 0.97
_POINTS = 2048
_CELLS = 400  # of the quadrature of the first of r


@dataclass(frozen=True)
class TierLatency:
    """What the law of a tier's stay depends on, whatever the fleet. gamma in (0, 1]."""

    processing_s: float  # core seconds per copy
    cv2: float
    visits: float  # requests here per copy executed upstream
    interference_share: float = 0.0
    gamma: float = 1.0
    run_s: float = 0.0


@dataclass(frozen=True)
class Station:
    """One tier as configured: servers, cores of each, replicas, policy, request rate before r."""

    tier: TierLatency
    servers: int
    cores: float
    replicas: int
    policy: str
    request_per_s: float

    @property
    def load(self) -> float:
        """rho of an undisturbed server."""
        demand = self.request_per_s * self.replicas * self.tier.processing_s
        return demand / (self.servers * self.cores)


@dataclass(frozen=True)
class Stays:
    """Mean stay [s] on an undisturbed and a slowed server; P(k of the r servers are slowed)."""

    fast_s: float
    slow_s: float
    slow_count: tuple[float, ...]


@lru_cache(maxsize=65536)
def stays(station: Station) -> Stays:
    """The states of a tier's stay (equations above).

    Raises: UnstableError where the load reaches the capacity, InputError where r > servers.
    """
    if station.replicas > station.servers:
        raise InputError(
            "replicas", expected=f"at most {station.servers} servers", came=str(station.replicas)
        )
    tier, rho = station.tier, station.load
    f, gamma = tier.interference_share, tier.gamma
    left = 1.0 - f * (1.0 - gamma)
    if rho / left >= 1.0:
        raise UnstableError(
            "tier load", expected="below 1", came=f"{rho / left:.3f}", do="Add nodes or cores."
        )
    tad = station.policy == "tad"
    fast = rho / left if tad else rho
    slow = rho / left if tad else rho / gamma
    return Stays(
        fast_s=mean_stay_s(tier, station.cores, fast, 1.0),
        slow_s=mean_stay_s(tier, station.cores, slow, gamma),
        slow_count=_slow_count(station, fast) if tad else _binomial(station.replicas, f),
    )


def mean_stay_s(tier: TierLatency, cores: float, rho: float, speed: float) -> float:
    """Mean stay [s] of a copy on a server at load rho (of its present speed); see the module."""
    c = max(1.0, cores)
    held = min(rho, _RHO_MAX)
    service_s = tier.processing_s / (min(1.0, cores) * speed)
    wait: float = held ** (math.sqrt(2.0 * (c + 1.0)) - 1.0) / (c * (1.0 - held))
    backlog_s = max(0.0, rho - _RHO_MAX) * tier.run_s / (2.0 * max(1.0, tier.visits))
    return service_s * (1.0 + wait) + backlog_s


def _binomial(n: int, p: float) -> tuple[float, ...]:
    return tuple(math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1))


def _slow_count(station: Station, rho: float) -> tuple[float, ...]:
    """P(k slowed among the r chosen) if fast servers that are free go first."""
    free = (1.0 - station.tier.interference_share) * (1.0 - min(rho, _RHO_MAX))
    fast_free = _binomial(station.servers, free)
    r = station.replicas
    few = [fast_free[r - k] for k in range(r, 0, -1)]  # k = r .. 1 slowed: F = 0 .. r - 1
    return (1.0 - math.fsum(few), *reversed(few))


class PageLatency:
    """The law of a page's latency over stations from the front to the back, on a time grid."""

    def __init__(self, horizon_s: float) -> None:
        self.horizon_s = horizon_s
        self.edges_s: Array = np.linspace(0.0, horizon_s, _POINTS + 1)
        self._own = lru_cache(maxsize=16384)(self._own_masses)
        self._back = lru_cache(maxsize=16384)(self._back_mass)

    def percentile_s(self, stations: Sequence[Station], q: float) -> float:
        """The q-th percentile [s] of the page; inf if it is beyond the grid's horizon."""
        cdf = 1.0 - self._survival(tuple(stations))
        target = q / 100.0
        if not cdf[-1] >= target:
            return math.inf
        return float(np.interp(target, cdf, self.edges_s))

    def mean_s(self, stations: Sequence[Station]) -> float:
        """Mean of the page [s], cut at the grid's horizon."""
        return float(np.trapezoid(self._survival(tuple(stations)), self.edges_s))

    def _survival(self, stations: tuple[Station, ...]) -> Array:
        """P(page > t) at the grid's edges."""
        first = stations[0]
        fast, slow = self._own(first)
        if len(stations) > 1:
            back = self._downstream(stations[1:])
            fast, slow = _convolve(fast, back), _convolve(slow, back)
        ends = [1.0 - np.concatenate(([0.0], np.cumsum(mass))) for mass in (fast, slow)]
        s_fast, s_slow = (np.clip(s, 0.0, 1.0) for s in ends)
        total = np.zeros_like(s_fast)
        for k, weight in enumerate(stays(first).slow_count):
            total += weight * s_fast ** (first.replicas - k) * s_slow**k
        return np.minimum.accumulate(total)

    def _downstream(self, stations: tuple[Station, ...]) -> Array:
        """Mass of all the visits of one upstream copy to the tiers below."""
        if len(stations) == 1:
            return self._back(stations[0])
        mass = -np.diff(self._survival(stations))
        middle = (self.edges_s[1:] + self.edges_s[:-1]) / 2
        visits = stations[0].tier.visits
        mean = float(mass @ middle)
        variance = float(mass @ middle**2) - mean**2
        return self._gamma_mass(visits * mean, visits * max(variance, 1e-12 * mean**2))

    def _own_masses(self, station: Station) -> tuple[Array, Array]:
        state = stays(station)
        cv2 = station.tier.cv2
        fast, slow = (self._gamma_mass(m, cv2 * m * m) for m in (state.fast_s, state.slow_s))
        return fast, slow

    def _back_mass(self, station: Station) -> Array:
        """Mass of q visits to the last tier; the connection keeps its servers, fast or slow."""
        state = stays(station)
        total = np.zeros(_POINTS)
        for k, weight in enumerate(state.slow_count):
            if weight > 1e-12:
                mean, variance = _first_of(station, state, k)
                visits = station.tier.visits
                total += weight * self._gamma_mass(visits * mean, visits * variance)
        return total

    def _gamma_mass(self, mean_s: float, variance: float) -> Array:
        from scipy.special import gammainc

        shape = mean_s**2 / variance
        cdf = gammainc(shape, self.edges_s * mean_s / variance)
        mass: Array = np.diff(cdf)
        return mass


def _first_of(station: Station, state: Stays, slow: int) -> tuple[float, float]:
    """Mean and variance [s, s^2] of the first of r gamma stays, `slow` of them on slowed
    servers."""
    from scipy.special import gammaincc

    cv2, r = station.tier.cv2, station.replicas
    if r == 1:
        mean = state.slow_s if slow else state.fast_s
        return mean, cv2 * mean**2
    widest = state.slow_s if slow == r else state.fast_s
    # t = widest * x; cells widen quadratically so that the steep start of a small shape is seen
    x = (1.0 + 25.0 * max(1.0, cv2)) * np.linspace(0.0, 1.0, _CELLS) ** 2
    t = widest * x
    shape = 1.0 / cv2
    survival = gammaincc(shape, t * shape / state.fast_s) ** (r - slow)
    survival = survival * gammaincc(shape, t * shape / state.slow_s) ** slow
    mean = float(np.trapezoid(survival, t))
    second = float(2.0 * np.trapezoid(t * survival, t))
    return mean, max(second - mean**2, 1e-12 * mean**2)


def _convolve(a: Array, b: Array) -> Array:
    """Mass of the sum on the same grid; what lies beyond is cut off. Both masses sit at
    mid-cell."""
    from scipy.fft import irfft, rfft

    size = 2 * _POINTS
    full = irfft(rfft(a, size) * rfft(b, size), size)[:_POINTS]
    # cells i and j meet at edge i + j + 1: half of it belongs to either neighbouring cell
    return 0.5 * (full + np.concatenate(([0.0], full[:-1])))
