"""The least extra nodes, or the least pool, that reach a target availability.

More nodes do not lower availability, so the least number is bracketed by doubling and found by
bisection; the number one below is evaluated too, and its failure is part of the answer. Where
shocks hit places at random, more places also mean more shocks: nothing is assumed there, and the
numbers are tried one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.availability.models import (
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.availability.rates import HORIZON_S, Availability, FailureRates
from optimizer.errors import InputError, require_share

_HOUR_S = 3600.0
_FAILING_POOL_MAX = 256  # larger pools whose nodes fail while they wait take minutes to solve
_NO_GAIN = 1e-9  # below it, twice the nodes are no better: the error of the models


@dataclass(frozen=True)
class Sizing:
    """`extra` is None if no size (or none up to the asked limit) reaches the target."""

    extra: int | None
    reached: Availability | None
    one_fewer: Availability | None
    reason: str


@dataclass(frozen=True)
class _Search:
    """What is sized: availability by size, the target, and how to speak of it."""

    at: Callable[[int], Availability]
    target: float
    limit: int
    horizon_s: float
    what: str

    def meets(self, size: int) -> bool:
        return self.at(size).availability >= self.target

    def short(self, size: int) -> str:
        lost = f"{_hours(self.at(size).unavailability * self.horizon_s)} h"
        return f"{lost} against {_hours((1.0 - self.target) * self.horizon_s)} h allowed"


def least_extra_nodes(
    needed: int,
    target: float,
    rates: FailureRates,
    *,
    scheme: str,
    extra_max: int = 100_000,
    horizon_s: float = HORIZON_S,
) -> Sizing:
    """Least extra active nodes (active route anywhere) for `target`, an availability in [0, 1).

    `extra_max` bounds the search. Independent crashes are outnumbered by some size, common shocks
    are not: where twice the nodes no longer help, the target is infeasible at any size.
    Source: PCRAFT section V-C, Table II.
    """
    require_share("target", target, one=False)

    def at(extra: int) -> Availability:
        return active_route_anywhere(needed, extra, rates, scheme=scheme, horizon_s=horizon_s)

    search = _Search(at, target, extra_max, horizon_s, "extra active nodes")
    if rates.common_cause and rates.common_cause_nodes is not None:
        return _in_turn(search)
    return _least(search, saturates=bool(rates.common_cause))


def least_pool(
    needed: int,
    target: float,
    rates: FailureRates,
    *,
    pool_max: int = 2_000,
    horizon_s: float = HORIZON_S,
) -> Sizing:
    """Least pool (passive failover, on-premises) for `target`, an availability in [0, 1).

    No pool beats an unlimited one, whose fail-overs alone cost time: a target above that is
    infeasible at any size, and is recognised before the search. Pools whose nodes fail while they
    wait are tried up to 256.  Source: PCRAFT Table III.
    """
    require_share("target", target, one=False)
    unlimited = passive_failover(needed, None, rates, scheme="cloud", horizon_s=horizon_s)
    if unlimited.availability < target:
        lost_h = _hours(unlimited.unavailability * horizon_s)
        allowed_h = _hours((1.0 - target) * horizon_s)
        cause = "fail-over alone costs" if rates.plain else "with an unlimited pool there are still"
        reason = (
            f"infeasible at any size: {cause} {lost_h} h against {allowed_h} h allowed "
            f"over the horizon"
        )
        return Sizing(None, None, unlimited, reason)
    if rates.repair_s is None and not rates.standby_fraction:
        return _least_by_table(needed, target, rates, pool_max, horizon_s)

    def at(pool: int) -> Availability:
        return passive_failover(needed, pool, rates, horizon_s=horizon_s)

    if rates.standby_fraction:
        pool_max = min(pool_max, _FAILING_POOL_MAX)
    search = _Search(at, target, pool_max, horizon_s, "nodes in the pool")
    return _least(search, saturates=bool(rates.standby_fraction))


def _least_by_table(
    needed: int, target: float, rates: FailureRates, pool_max: int, horizon_s: float
) -> Sizing:
    """One solve gives every pool up to its size, so double the size until the target is in it."""
    size = min(16, pool_max)
    while True:
        table = passive_failover_by_pool(needed, size, rates, horizon_s=horizon_s)
        if table[size].availability >= target or size == pool_max:
            search = _Search(table.__getitem__, target, size, horizon_s, "nodes in the pool")
            return _least(search, saturates=False)
        size = min(2 * size, pool_max)


def _least(search: _Search, saturates: bool) -> Sizing:
    _check(search)
    if search.meets(0):
        return _none_needed(search)
    low, high = 0, 1
    while high < search.limit and not search.meets(high):
        gain = search.at(high).availability - search.at(low).availability
        if saturates and high >= 64 and gain < _NO_GAIN:
            reason = f"infeasible at any size: {low} and {high} {search.what} both cost "
            return Sizing(None, None, search.at(high), reason + search.short(high))
        low, high = high, 2 * high
    high = min(high, search.limit)
    if not search.meets(high):
        return _out_of_reach(search)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.meets(middle) else (middle, high)
    return _found(search, high)


def _in_turn(search: _Search, patience: int = 64) -> Sizing:
    """The first size that meets the target, each tried; given up when none gets better any more."""
    _check(search)
    if search.meets(0):
        return _none_needed(search)
    best, best_at = search.at(0).availability, 0
    for size in range(1, search.limit + 1):
        value = search.at(size).availability
        if value >= search.target:
            return _found(search, size)
        if value > best + _NO_GAIN:
            best, best_at = value, size
        if size - best_at >= patience:
            reason = (
                f"infeasible as far as was tried: the best of 0 to {size} {search.what} is "
                f"{best_at}, at {search.short(best_at)}"
            )
            return Sizing(None, None, search.at(best_at), reason)
    reason = (
        f"{search.limit} {search.what}, the most tried, still cost {search.short(search.limit)}"
    )
    return Sizing(None, None, search.at(search.limit), reason)


def _check(search: _Search) -> None:
    if search.limit < 0:
        raise InputError("size limit", expected="at least 0", came=str(search.limit))


def _out_of_reach(search: _Search) -> Sizing:
    most = search.limit
    reason = f"{most} {search.what} still cost {search.short(most)}, and more were not tried"
    return Sizing(None, None, search.at(most), reason)


def _none_needed(search: _Search) -> Sizing:
    reached = search.at(0)
    reason = f"no {search.what} needed: {reached.availability:.9f} without"
    return Sizing(0, reached, None, reason)


def _found(search: _Search, size: int) -> Sizing:
    reached, fewer = search.at(size), search.at(size - 1)
    reason = (
        f"{size} {search.what} reach {reached.availability:.9f}, "
        f"{size - 1} reach {fewer.availability:.9f} < {search.target}"
    )
    return Sizing(size, reached, fewer, reason)


def _hours(time_s: float) -> str:
    return f"{time_s / _HOUR_S:.3g}"
