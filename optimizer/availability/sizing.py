"""Availability by number of extra nodes or pool, and the least number that reaches a target.

The planner's options and the least pool come from one list, `sizes`; the next smaller number is
part of the answer. Extra nodes do not lower availability, so their least number is bracketed by
doubling and found by bisection, except with shocks. If shocks hit some places at random, more
places also mean more shocks, and availability does not change until a shock no longer takes all
extra nodes. If shocks take down all nodes, availability ends in their own share, near which the
models' error decides. With shocks extra nodes are therefore tried one after the other too.

The upper bound of all sizes is solved separately, and a target above it is infeasible at any size:
an unlimited pool, which loses time by fail-overs only; and with shocks that take down all nodes,
nodes that do not crash or limp between the shocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from core.errors import InputError
from core.tolerances import U_FLOOR
from core.vocabulary import Mechanism, Scheme
from optimizer.availability.models import (
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.availability.rates import (
    HORIZON_S,
    Availability,
    FailureRates,
    availability_text,
    distinct_texts,
    require_target,
)

_HOUR_S = 3600.0
FAILING_POOL_MAX = 256  # larger pools whose nodes fail while they wait take minutes to solve
SHOCKED_MAX = 1_000  # extra nodes that are tried one after the other
_POOLS_FIRST = 64
_NEARLY_ONE = 1.0 - 2.0**-40  # common_cause is below 1


@dataclass(frozen=True)
class Sizing:
    """The least size; `extra` is None if no size (or none up to the limit) reaches the target."""

    extra: int | None
    reached: Availability | None
    one_fewer: Availability | None
    reason: str


@dataclass(frozen=True)
class _Search:
    """A search for a size: availability by size, the target, and the words of its messages."""

    evaluate: Callable[[int], Availability]
    target: float
    limit: int
    horizon_s: float
    subject: str

    def meets(self, size: int) -> bool:
        return self.evaluate(size).keeps(self.target)

    def loss_words(self, size: int) -> str:
        lost = self.evaluate(size).unavailability_most * self.horizon_s  # what `meets` holds it to
        return _hours_words(lost, (1.0 - self.target) * self.horizon_s)


def sizes(
    needed: int,
    most: int,
    rates: FailureRates,
    *,
    mechanism: str,
    scheme: str,
    horizon_s: float = HORIZON_S,
    tried: int = -1,
) -> Iterator[Availability]:
    """Yield the availability with 0, 1, ..., `most` extra active nodes (ara) or pool nodes (pf).

    Extra nodes continue to `most`, because a step without effect may precede one with a large
    effect; they end earlier, but after `tried`, only at `U_FLOOR`, which nothing can be shown to
    beat. Pools continue to `most` if one solve has all of them. Otherwise they end within the
    models' error bounds of an unlimited pool, which no pool beats; larger pools have the bound of
    the last one. In the cloud the pool is unlimited, and there is one value.
    """
    if mechanism == Mechanism.ara:
        for extra in range(most + 1):
            yield (
                estimate := active_route_anywhere(
                    needed, extra, rates, scheme=scheme, horizon_s=horizon_s
                )
            )
            if extra >= tried and estimate.unavailability_most <= U_FLOOR:
                return
        return
    unlimited = passive_failover(needed, None, rates, scheme=Scheme.cloud, horizon_s=horizon_s)
    if scheme == Scheme.cloud:
        yield unlimited
        return
    if rates.repair_s is None and not rates.standby_fraction:
        yield from _pools_at_once(needed, most, rates, horizon_s)
        return
    for pool in range(most + 1):
        yield (estimate := passive_failover(needed, pool, rates, horizon_s=horizon_s))
        ahead = estimate.unavailability - unlimited.unavailability
        if ahead <= estimate.error_bound + unlimited.error_bound:
            return


def _pools_at_once(
    needed: int, size_max: int, rates: FailureRates, horizon_s: float
) -> Iterator[Availability]:
    """Yield pools; one solve gives every pool up to its size, which is doubled if needed."""
    yielded, size = 0, min(_POOLS_FIRST, size_max)
    while yielded <= size_max:
        table = passive_failover_by_pool(needed, size, rates, horizon_s=horizon_s)
        for estimate in table[yielded:]:
            yield estimate
            if estimate.unavailability_most <= U_FLOOR:
                return
        yielded, size = size + 1, min(2 * size, size_max)


def least_extra_nodes(
    needed: int,
    target: float,
    rates: FailureRates,
    *,
    scheme: str,
    extra_max: int = 100_000,
    horizon_s: float = HORIZON_S,
) -> Sizing:
    """Return the least number of extra active nodes (active route anywhere) for a target.

    Parameters: needed >= 1; target, an availability in [0, 1); extra_max, the largest size tried
    (1,000 with shocks); horizon_s [s]. A target that shocks of all nodes alone miss is infeasible
    at any size.  Raises: InputError for a value out of its bounds.
    Source: PCRAFT section V-C, Table II.
    """
    require_target("target", target)
    evaluate = partial(
        active_route_anywhere, needed, rates=rates, scheme=scheme, horizon_s=horizon_s
    )
    subject = "extra active nodes"
    if not rates.common_cause:
        return _bisect(_Search(evaluate, target, extra_max, horizon_s, subject))
    if rates.common_cause_nodes is None:
        bound = shocks_alone(needed, rates, scheme, horizon_s)
        if bound.misses(target):
            cause = "shocks that take down all nodes alone cost"
            return _infeasible(bound, target, horizon_s, cause)
    size_max = min(extra_max, SHOCKED_MAX)
    estimates = sizes(
        needed, size_max, rates, mechanism=Mechanism.ara, scheme=scheme, horizon_s=horizon_s
    )
    return _try_in_turn(estimates, target, horizon_s, subject, size_max)


def shocks_alone(needed: int, rates: FailureRates, scheme: str, horizon_s: float) -> Availability:
    """Return the availability that no number of extra nodes beats if shocks take down all nodes.

    It assumes that nothing crashes or limps in between, and that the whole crew works until enough
    nodes are back. Parameters: as `least_extra_nodes`.
    """
    repair_s = None if rates.repair_s is None else rates.repair_s / rates.repair_crew
    shocks = replace(
        rates,
        crash_per_year=rates.crash_per_year * rates.common_cause,
        common_cause=_NEARLY_ONE,
        limp_per_year=0.0,
        repair_s=repair_s,
        repair_crew=1,
    )
    return active_route_anywhere(needed, 0, shocks, scheme=scheme, horizon_s=horizon_s)


def least_pool(
    needed: int,
    target: float,
    rates: FailureRates,
    *,
    pool_max: int = 2_000,
    horizon_s: float = HORIZON_S,
) -> Sizing:
    """Return the least pool (passive failover, on-premises) for a target.

    Parameters: as `least_extra_nodes`. No pool beats an unlimited one, which loses time by
    fail-overs only: a target above its availability is infeasible at any size, which is checked
    first. Pools whose nodes fail while they wait are tried up to 256.  Source: PCRAFT Table III.
    """
    require_target("target", target)
    unlimited = passive_failover(needed, None, rates, scheme=Scheme.cloud, horizon_s=horizon_s)
    if unlimited.misses(target):
        cause = "fail-over alone costs" if rates.plain else "with an unlimited pool there are still"
        return _infeasible(unlimited, target, horizon_s, cause)
    if rates.standby_fraction:
        pool_max = min(pool_max, FAILING_POOL_MAX)
    estimates = sizes(
        needed, pool_max, rates, mechanism=Mechanism.pf, scheme=Scheme.on_prem, horizon_s=horizon_s
    )
    return _try_in_turn(estimates, target, horizon_s, "nodes in the pool", pool_max)


def _bisect(search: _Search) -> Sizing:
    _check(search)
    if search.meets(0):
        return _none_needed(search)
    low, high = 0, 1
    while high < search.limit and not search.meets(high):
        low, high = high, 2 * high
    high = min(high, search.limit)
    if not search.meets(high):
        return _out_of_reach(search)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.meets(middle) else (middle, high)
    return _sizing(search, high)


def _try_in_turn(
    values: Iterator[Availability], target: float, horizon_s: float, subject: str, size_max: int
) -> Sizing:
    """Try each size, and return the first that meets the target.

    `values` has fewer than `size_max` sizes if more do not help.
    """
    estimates: list[Availability] = []
    search = _Search(estimates.__getitem__, target, size_max, horizon_s, subject)
    _check(search)
    for size, value in enumerate(values):
        estimates.append(value)
        if search.meets(size):
            return _sizing(search, size) if size else _none_needed(search)
    search = replace(search, limit=len(estimates) - 1)
    return _out_of_reach(search) if len(estimates) > size_max else _indistinct(search)


def _infeasible(bound: Availability, target: float, horizon_s: float, cause: str) -> Sizing:
    hours = _hours_words(bound.unavailability * horizon_s, (1.0 - target) * horizon_s)
    reason = f"infeasible at any size: {cause} {hours} over the horizon"
    return Sizing(None, None, bound, reason)


def _check(search: _Search) -> None:
    if search.limit < 0:
        raise InputError("size limit", expected="at least 0", got=str(search.limit))


def _out_of_reach(search: _Search) -> Sizing:
    size_max = search.limit
    loss = search.loss_words(size_max)
    reason = f"{size_max} {search.subject} still cost {loss}, and more were not tried"
    return Sizing(None, None, search.evaluate(size_max), reason)


def _indistinct(search: _Search) -> Sizing:
    size_max = search.limit
    reason = (
        f"{size_max} {search.subject} cost {search.loss_words(size_max)}, and more are not told "
        "apart from that: the models' own error decides"
    )
    return Sizing(None, None, search.evaluate(size_max), reason)


def _none_needed(search: _Search) -> Sizing:
    reached = search.evaluate(0)
    reason = f"no {search.subject} needed: {availability_text(reached.unavailability_most)} without"
    return Sizing(0, reached, None, reason)


def _sizing(search: _Search, size: int) -> Sizing:
    reached, fewer = search.evaluate(size), search.evaluate(size - 1)
    reached_text, fewer_text = distinct_texts(
        reached.unavailability_most, fewer.unavailability_most
    )
    reason = (
        f"{size} {search.subject} reach {reached_text}, {size - 1} reach {fewer_text} < "
        f"{search.target}"
    )
    return Sizing(size, reached, fewer, reason)


def _hours_words(lost_s: float, allowed_s: float) -> str:
    """Return both times in hours, with enough digits to see which is more."""
    for digits in range(3, 18):
        lost, allowed = (f"{time_s / _HOUR_S:.{digits}g}" for time_s in (lost_s, allowed_s))
        if lost_s == allowed_s or lost != allowed:
            break
    return f"{lost} h against {allowed} h allowed"
