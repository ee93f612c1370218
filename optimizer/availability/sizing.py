"""The least extra nodes, or the least pool, that reach a target availability.

More nodes never lower availability, so the least number is bracketed by doubling and found by
bisection; the number one below is evaluated too and its failure is part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.availability.models import (
    HORIZON_S,
    Availability,
    FailureRates,
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.errors import InputError, require_share

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Sizing:
    """`extra` is None if no size (or none up to the asked limit) reaches the target."""

    extra: int | None
    reached: Availability | None
    one_fewer: Availability | None
    reason: str


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

    Every target below 1 is reached by some number: the crashes that a fleet survives grow with its
    size. `extra_max` bounds the search.  Source: PCRAFT section V-C, Table II.
    """
    require_share("target", target, one=False)

    def at(extra: int) -> Availability:
        return active_route_anywhere(needed, extra, rates, scheme=scheme, horizon_s=horizon_s)

    return _least(at, target, extra_max, horizon_s, "extra active nodes")


def least_pool(
    needed: int,
    target: float,
    rates: FailureRates,
    *,
    pool_max: int = 2_000,
    horizon_s: float = HORIZON_S,
) -> Sizing:
    """Least cold pool (passive failover, on-premises) for `target`, an availability in [0, 1).

    No pool beats an unlimited one, whose fail-overs alone cost time: a target above that is
    infeasible at any size, and is recognised before the search.  Source: PCRAFT Table III.
    """
    require_share("target", target, one=False)
    unlimited = passive_failover(needed, None, rates, scheme="cloud", horizon_s=horizon_s)
    if unlimited.availability < target:
        lost_h = unlimited.unavailability * horizon_s / _HOUR_S
        allowed_h = (1.0 - target) * horizon_s / _HOUR_S
        reason = (
            f"infeasible at any size: fail-over alone costs {lost_h:.3g} h "
            f"against {allowed_h:.3g} h allowed over the horizon"
        )
        return Sizing(None, None, unlimited, reason)
    if rates.repair_s is None:
        return _least_by_table(needed, target, rates, pool_max, horizon_s)

    def at(pool: int) -> Availability:
        return passive_failover(needed, pool, rates, horizon_s=horizon_s)

    return _least(at, target, pool_max, horizon_s, "nodes in the pool")


def _least_by_table(
    needed: int, target: float, rates: FailureRates, pool_max: int, horizon_s: float
) -> Sizing:
    """One solve gives every pool up to its size, so double the size until the target is in it."""
    size = min(16, pool_max)
    while True:
        table = passive_failover_by_pool(needed, size, rates, horizon_s=horizon_s)
        if table[size].availability >= target or size == pool_max:
            return _least(table.__getitem__, target, size, horizon_s, "nodes in the pool")
        size = min(2 * size, pool_max)


def _least(
    at: Callable[[int], Availability], target: float, limit: int, horizon_s: float, what: str
) -> Sizing:
    if limit < 0:
        raise InputError("size limit", expected="at least 0", came=str(limit))
    if at(0).availability >= target:
        return Sizing(0, at(0), None, f"no {what} needed")
    low, high = 0, 1
    while high < limit and at(high).availability < target:
        low, high = high, 2 * high
    high = min(high, limit)
    if at(high).availability < target:
        lost_h = at(high).unavailability * horizon_s / _HOUR_S
        allowed_h = (1.0 - target) * horizon_s / _HOUR_S
        reason = f"{limit} {what} still cost {lost_h:.3g} h against {allowed_h:.3g} h allowed"
        return Sizing(None, None, at(high), reason)
    while high - low > 1:
        middle = (low + high) // 2
        if at(middle).availability >= target:
            high = middle
        else:
            low = middle
    reason = (
        f"{high} {what} reach {at(high).availability:.6f}, "
        f"{low} reach {at(low).availability:.6f} < {target}"
    )
    return Sizing(high, at(high), at(low), reason)
