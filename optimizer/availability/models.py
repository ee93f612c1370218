r"""PCRAFT's availability models: passive failover, active route anywhere; cloud, on-premises.

States count nodes (PCRAFT Fig. 1): UpNodes, and in passive failover the pool. Rates:

    UpNodes -> UpNodes - 1                     UpNodes * lambda     crash, each node by itself
    UpNodes -> UpNodes + 1 [, pool -> pool-1]  rho                  fail-over, one at a time
    pool    -> pool + 1, while pool < its size rho_repair           pool repair, one at a time

One rho, however many nodes are down, is how Fig. 1 is drawn; reference solutions agree with it to
4e-14 and differ by 1e-11 from a rate per missing node. A node in the pool is cold: it does not
fail. A node is up for repair once fail-over has replaced it. On-premises active route anywhere has
no replacement; with `repair_s` a broken node returns to service at rate 1 / repair_s, one at a
time.

Availability = expected share of the horizon, from all up, with UpNodes >= Num.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.availability.transient import Rewards, expected_rewards
from optimizer.errors import InputError, require_count, require_positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

HORIZON_S = 365 * 86_400.0
_YEAR_S = 365 * 86_400.0
_DEPTH = 10  # nodes that may be down below the last good state before the chain is cut
_TRUNCATION = 1e-12  # a wider bracket than this deepens the chain

Transition = tuple[int, int, float]


@dataclass(frozen=True)
class FailureRates:
    """Crash rate per node [1/year of 365 d]; mean fail-over and repair times [s]; no repair:
    None."""

    crash_per_year: float = 1.0
    failover_s: float = 15.0
    repair_s: float | None = None

    def __post_init__(self) -> None:
        require_positive("crash_per_year", self.crash_per_year)
        require_positive("failover_s", self.failover_s)
        if self.repair_s is not None:
            require_positive("repair_s", self.repair_s)


@dataclass(frozen=True)
class Availability:
    """Expected share of the horizon without enough nodes, and how wrong that may be."""

    unavailability: float
    error_bound: float
    states: int

    @property
    def availability(self) -> float:
        return 1.0 - self.unavailability


def active_route_anywhere(
    needed: int,
    extra: int,
    rates: FailureRates,
    *,
    scheme: str = "cloud",
    horizon_s: float = HORIZON_S,
) -> Availability:
    r"""Expected share of the horizon with at least `needed` of `needed + extra` active nodes up.

    Parameters: needed >= 1, extra >= 0 nodes; scheme cloud (a crashed node is replaced at rate
    1 / failover_s) or on-prem (not replaced, or repaired at rate 1 / repair_s); horizon_s [s].
    Returns: Availability; error_bound is absolute: the truncation bracket, which is rigorous, plus
    the numerical estimate of `transient`, below 1e-9.  Source: PCRAFT Fig. 1(b).

    On-premises without repair the nodes are independent and live exp(lambda), so with
    p(t) = exp(-lambda t),  U = 1/T \int_0^T P(Bin(needed + extra, p(t)) < needed) dt.
    """
    _check(needed, extra, scheme, horizon_s)
    return _active(needed, extra, rates, scheme, horizon_s)


def passive_failover(
    needed: int,
    pool: int | None,
    rates: FailureRates,
    *,
    scheme: str = "on-prem",
    horizon_s: float = HORIZON_S,
) -> Availability:
    """Expected share of the horizon with all `needed` nodes up, crashes replaced from a cold pool.

    Parameters: needed >= 1 active nodes; pool the number of cold nodes (on-prem), None in the
    cloud, where it is unlimited; horizon_s [s].
    Returns: Availability, error_bound as in `active_route_anywhere`.  Source: PCRAFT Fig. 1(a).
    """
    _check(needed, pool or 0, scheme, horizon_s)
    if (pool is None) != (scheme == "cloud"):
        raise InputError(
            "pool",
            expected="a size with scheme on-prem, none with scheme cloud (unlimited there)",
            came=f"{pool} with {scheme}",
        )
    if pool is None:
        return _active(needed, 0, rates, "cloud", horizon_s)
    if rates.repair_s is None:
        return passive_failover_by_pool(needed, pool, rates, horizon_s=horizon_s)[pool]
    return _pool_with_repair(needed, pool, rates, horizon_s)


@lru_cache(maxsize=512)
def passive_failover_by_pool(
    needed: int, pool_max: int, rates: FailureRates, *, horizon_s: float = HORIZON_S
) -> tuple[Availability, ...]:
    r"""`passive_failover` on-premises without pool repair, for every pool of 0..pool_max at once.

    Without repair the number k of pool nodes consumed never falls and its law does not depend on
    the pool while k < pool. With L_k the expected share of the horizon at full strength having
    consumed k, A(pool) = sum_{k <= pool} L_k: one solve gives all sizes.
    """
    _check(needed, pool_max, "on-prem", horizon_s)
    for depth in _depths(needed):
        chain, rewards = _consumption_chain(needed, pool_max, depth, rates, horizon_s)
        matrix = _matrix(chain, rewards.shape[1])
        result = expected_rewards(matrix, rewards, 0, needed * _per_horizon(rates, horizon_s))
        bracket = float(result.values[-1])  # time after the cut, which was counted as down
        if bracket < _TRUNCATION or depth == needed:
            break
    up = np.cumsum(result.values[:-1])
    error = result.error + bracket
    return tuple(Availability(_share(1.0 - float(a)), error, rewards.shape[1]) for a in up)


def steady_state(
    needed: int, extra: int, rates: FailureRates, *, mechanism: str, scheme: str
) -> float | None:
    r"""Long-run share of time with at least `needed` nodes up; None where the fleet only dies out.

    Parameters: as above; mechanism ara (extra = active nodes) or pf (extra = pool; unused in the
    cloud).  Returns: float in [0, 1] or None (on-premises without repair: absorbing).
    Birth-death (ara, and pf in the cloud): pi_n ~ (rho / lambda)^n / n!, pi normalised over 0..N.
    """
    _check(needed, extra, scheme, HORIZON_S)
    if scheme == "on-prem" and rates.repair_s is None:
        return None
    lam = rates.crash_per_year / _YEAR_S
    if mechanism == "pf" and scheme == "on-prem":
        return _pool_steady_state(needed, extra, rates)
    total = needed + (extra if mechanism == "ara" else 0)
    recovery_s = rates.failover_s if scheme == "cloud" else rates.repair_s
    assert recovery_s is not None
    n = np.arange(total + 1)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, total + 1)))))
    log_weight = -n * math.log(lam * recovery_s) - factorials
    weight = np.exp(log_weight - log_weight.max())
    return float(weight[needed:].sum() / weight.sum())


def _check(needed: int, extra: int, scheme: str, horizon_s: float) -> None:
    require_count("needed", needed, least=1)
    require_count("extra or pool", extra)
    require_positive("horizon_s", horizon_s)
    if scheme not in ("cloud", "on-prem"):
        raise InputError("scheme", expected="cloud or on-prem", came=repr(scheme))


def _per_horizon(rates: FailureRates, horizon_s: float) -> float:
    return rates.crash_per_year * horizon_s / _YEAR_S


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _depths(needed: int) -> Iterator[int]:
    """Cuts to try, each deeper than the one before, ending at no cut at all."""
    depth = _DEPTH
    while depth < needed:
        yield depth
        depth *= 2
    yield needed


@lru_cache(maxsize=4096)
def _active(
    needed: int, extra: int, rates: FailureRates, scheme: str, horizon_s: float
) -> Availability:
    recovery_s = rates.failover_s if scheme == "cloud" else rates.repair_s
    if recovery_s is None:
        return _dying(needed, extra, rates, horizon_s)
    total = needed + extra
    crash = _per_horizon(rates, horizon_s)
    for depth in _depths(needed):
        down_max = extra + depth
        chain: list[Transition] = []
        for down in range(down_max + 1):
            if down < total:
                chain.append((down, down + 1, (total - down) * crash))
            if down > 0:
                chain.append((down, down - 1, horizon_s / recovery_s))
        cut = down_max + 1  # absorbing; never reached when depth == needed
        chain = [t for t in chain if t[0] != cut]
        rewards = _rewards([list(range(extra + 1, down_max + 1)), [cut]], [1.0, 1.0], down_max + 2)
        result = expected_rewards(_matrix(chain, down_max + 2), rewards, 0, total * crash)
        if result.values[1] < _TRUNCATION or depth == needed:
            break
    return _bracketed(result, down_max + 2)


def _bracketed(result: Rewards, states: int) -> Availability:
    """Time down for sure, plus the time after the cut, which may have been down or up."""
    down, after_cut = (float(value) for value in result.values)
    return Availability(_share(down + after_cut), result.error + after_cut, states)


def _dying(needed: int, extra: int, rates: FailureRates, horizon_s: float) -> Availability:
    from scipy.integrate import quad
    from scipy.special import bdtr

    total = needed + extra
    crash = _per_horizon(rates, horizon_s)

    def too_few(t: float) -> float:
        return float(bdtr(needed - 1, total, math.exp(-crash * t)))

    # the step is where the mean number up passes `needed`; its width is about 1/sqrt(total)
    middle = math.log(total / needed) / crash if extra else 0.0
    width = 1.0 / (crash * math.sqrt(total))
    marks = [middle + k * width for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
    edges = [0.0, *sorted(m for m in marks if 0.0 < m < 1.0), 1.0]
    parts = [quad(too_few, a, b, epsabs=1e-13, epsrel=1e-12, limit=200) for a, b in pairwise(edges)]
    value = math.fsum(part[0] for part in parts)
    return Availability(_share(value), math.fsum(part[1] for part in parts) + 1e-14, total + 1)


def _consumption_chain(
    needed: int, pool_max: int, depth: int, rates: FailureRates, horizon_s: float
) -> tuple[list[Transition], Any]:
    """States (k consumed < pool_max, d down <= depth), then (pool_max, 0), dead, cut."""
    crash, failover = _per_horizon(rates, horizon_s), horizon_s / rates.failover_s
    width = depth + 1
    last = pool_max * width
    dead, cut = last + 1, last + 2
    chain: list[Transition] = [(last, dead, needed * crash)]
    for k in range(pool_max):
        for d in range(width):
            state = k * width + d
            if d < needed:
                chain.append((state, state + 1 if d < depth else cut, (needed - d) * crash))
            if d > 0:
                exhausted = k + 1 == pool_max
                after = (last if d == 1 else dead) if exhausted else state + width - 1
                chain.append((state, after, failover))
    full = [[k * width] for k in range(pool_max)] + [[last]]
    return chain, _rewards([*full, [cut]], [1.0] * (pool_max + 2), last + 3)


@lru_cache(maxsize=4096)
def _pool_with_repair(
    needed: int, pool: int, rates: FailureRates, horizon_s: float
) -> Availability:
    crash = _per_horizon(rates, horizon_s)
    for depth in _depths(needed):
        chain, width = _repair_chain(needed, pool, depth, rates, horizon_s)
        states = (pool + 1) * width + 1
        down = [s for s in range(states - 1) if s % width]
        rewards = _rewards([down, [states - 1]], [1.0, 1.0], states)
        result = expected_rewards(_matrix(chain, states), rewards, 0, needed * crash)
        if result.values[1] < _TRUNCATION or depth == needed:
            break
    return _bracketed(result, states)


def _repair_chain(
    needed: int, pool: int, depth: int, rates: FailureRates, horizon_s: float
) -> tuple[list[Transition], int]:
    """States (k of the pool consumed, d down <= depth), then the cut."""
    assert rates.repair_s is not None
    crash, failover = _per_horizon(rates, horizon_s), horizon_s / rates.failover_s
    width = depth + 1
    cut = (pool + 1) * width
    chain: list[Transition] = []
    for k in range(pool + 1):
        for d in range(width):
            state = k * width + d
            if d < needed:
                chain.append((state, state + 1 if d < depth else cut, (needed - d) * crash))
            if d > 0 and k < pool:
                chain.append((state, state + width - 1, failover))
            if k > 0:
                chain.append((state, state - width, horizon_s / rates.repair_s))
    return chain, width


def _pool_steady_state(needed: int, pool: int, rates: FailureRates) -> float:
    from scipy.sparse.linalg import spsolve

    if pool == 0:
        return 0.0  # nothing to fail over to, ever
    chain, width = _repair_chain(needed, pool, needed, rates, HORIZON_S)
    states = (pool + 1) * width
    matrix = _matrix(chain, states).tolil()
    matrix[0, :] = 1.0  # one balance equation is redundant: the sum of probabilities instead
    right = np.zeros(states)
    right[0] = 1.0
    probability = spsolve(matrix.tocsc(), right)
    return _share(float(probability[::width].sum()))


def _matrix(chain: list[Transition], states: int) -> Any:
    from scipy.sparse import csc_array

    source, target, rate = (np.array(column) for column in zip(*chain, strict=True))
    rows = np.concatenate((target, source))
    columns = np.concatenate((source, source))
    return csc_array((np.concatenate((rate, -rate)), (rows, columns)), shape=(states, states))


def _rewards(groups: list[list[int]], values: list[float], states: int) -> Any:
    from scipy.sparse import csc_array

    rows = [row for row, group in enumerate(groups) for _ in group]
    columns = [state for group in groups for state in group]
    weights: NDArray[np.float64] = np.array([values[row] for row in rows])
    return csc_array((weights, (rows, columns)), shape=(len(groups), states))
