r"""PCRAFT's availability models: passive failover, active route anywhere; cloud, on-premises.

Availability = expected share of the horizon, from all up, with at least `needed` nodes' capacity.
`chain` has the states and transitions. Fig. 1 has one rho for any number of nodes down; reference
solutions agree with it to 4e-14 and differ by 1e-11 from a rate per missing node. A node is
repaired after fail-over has replaced it. On-premises active route anywhere has no replacement; with
`repair_s` a broken node returns to service.

Error: the chain's cut is a rigorous bracket (`chain`), the error of the transient solution is an
estimate (`transient`); their sum is `error_bound`, below 1e-9 absolute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from core.arrays import Floats, Ints
from core.errors import InputError, PlannerError, require_count, require_positive
from core.tolerances import U_BRACKET, U_ERROR_MAX, U_PAST_CUT
from core.units import YEAR_S
from core.vocabulary import Mechanism, Scheme, mechanism_of, scheme_of
from optimizer.availability.chain import DEAD, PAST_CUT, Chain, Shape, build
from optimizer.availability.rates import HORIZON_S, Availability, FailureRates
from optimizer.availability.transient import expected_rewards

_TAIL = 1e-16  # of a geometric law, where the first cut is put


def active_route_anywhere(
    needed: int,
    extra: int,
    rates: FailureRates,
    *,
    scheme: str = Scheme.cloud,
    horizon_s: float = HORIZON_S,
) -> Availability:
    r"""Expected share of the horizon with at least `needed` of `needed + extra` active nodes up.

    Parameters: needed >= 1, extra >= 0 nodes; scheme cloud (a crashed node is replaced at rate
    1 / failover_s) or on-prem (not replaced, or repaired at rate 1 / repair_s); horizon_s [s].
    Returns: Availability; error_bound is absolute and below 1e-9.  Source: PCRAFT Fig. 1(b).

    On-premises without repair plain nodes are independent and live exp(lambda), so with
    p(t) = exp(-lambda t),  U = 1/T \int_0^T P(Bin(needed + extra, p(t)) < needed) dt.
    """
    check(needed, extra, scheme, horizon_s)
    if scheme == Scheme.on_prem and rates.repair_s is None and rates.plain:
        return _dying_availability(needed, extra, rates, horizon_s)
    total = needed + extra
    # One solve serves every split of the same total, because it has room for more extra nodes. If
    # nothing comes back, the dead states begin right after the extra ones.
    dying = scheme == Scheme.on_prem and rates.repair_s is None
    room = extra if dying else min(total, 1 << (extra + 1).bit_length())
    table = _by_extra(total, room, rates, scheme, horizon_s)
    return _require_accuracy(table[extra])


def passive_failover(
    needed: int,
    pool: int | None,
    rates: FailureRates,
    *,
    scheme: str = Scheme.on_prem,
    horizon_s: float = HORIZON_S,
) -> Availability:
    """Expected share of the horizon with all `needed` nodes up, crashes replaced from a pool.

    Parameters: needed >= 1 active nodes; pool the number of waiting nodes (on-prem), None in the
    cloud, where it is unlimited; horizon_s [s].
    Returns: Availability, error_bound as in `active_route_anywhere`.  Source: PCRAFT Fig. 1(a).
    """
    check(needed, pool or 0, scheme, horizon_s)
    if (pool is None) != (scheme == Scheme.cloud):
        raise InputError(
            "pool",
            expected="a size with scheme on-prem, none with scheme cloud (unlimited there)",
            got=f"{pool} with {scheme}",
        )
    if pool is None:
        return active_route_anywhere(needed, 0, rates, scheme=Scheme.cloud, horizon_s=horizon_s)
    if rates.repair_s is None and not rates.standby_fraction:
        return passive_failover_by_pool(needed, pool, rates, horizon_s=horizon_s)[pool]
    return _require_accuracy(_pool_availability(needed, pool, rates, horizon_s))


@lru_cache(maxsize=512)
def passive_failover_by_pool(
    needed: int, pool_max: int, rates: FailureRates, *, horizon_s: float = HORIZON_S
) -> tuple[Availability, ...]:
    r"""`passive_failover` on-premises without pool repair, for every pool of 0..pool_max at once.

    Without repair the number k of pool nodes consumed never falls and its law does not depend on
    the pool while k < pool. With L_k the expected share of the horizon at full strength having
    consumed k, A(pool) = sum_{k <= pool} L_k: one solve gives all sizes.
    Raises: InputError for rates with repair or with a standby that fails.
    """
    check(needed, pool_max, Scheme.on_prem, horizon_s)
    if rates.repair_s is not None or rates.standby_fraction:
        raise InputError("rates", expected="no repair and a cold standby", got=repr(rates))

    solved = _at_full_strength(needed, pool_max, rates, horizon_s)
    return tuple(
        _require_accuracy(Availability(share(1.0 - float(a)), solved.error, solved.chain.states))
        for a in np.cumsum(solved.values)
    )


@lru_cache(maxsize=4096)
def pool_consumed(needed: int, pool: int, rates: FailureRates) -> tuple[Floats, float]:
    """`passive_failover` on-premises: share of a year at full strength with k consumed.

    Returns: (pool + 1,) for k = 0..pool, and the absolute error of any sum of the first of them.
    """
    check(needed, pool, Scheme.on_prem, HORIZON_S)

    solved = _at_full_strength(needed, pool, rates, HORIZON_S)
    shares = np.zeros(pool + 1)
    shares[: len(solved.values)] = solved.values[: pool + 1]
    return shares, solved.error


def availability(
    needed: int,
    extra: int,
    rates: FailureRates,
    *,
    mechanism: str,
    scheme: str,
    horizon_s: float = HORIZON_S,
) -> Availability:
    """Return the availability of any of the four models (PCRAFT Fig. 1).

    Parameters: needed >= 1 nodes that carry the load; extra >= 0, active nodes with mechanism ara,
    the pool with pf (without effect in the cloud, where the pool is unlimited); rates; scheme cloud
    or on-prem; horizon_s [s] > 0.
    Returns: Availability, shares of the horizon.  Raises: InputError for a value out of its bounds.
    """
    if mechanism_of(mechanism) is Mechanism.ara:
        return active_route_anywhere(needed, extra, rates, scheme=scheme, horizon_s=horizon_s)
    check(needed, extra, scheme, horizon_s)
    pool = None if scheme == Scheme.cloud else extra
    return passive_failover(needed, pool, rates, scheme=scheme, horizon_s=horizon_s)


def shape_of(needed: int, extra: int, mechanism: str, scheme: str) -> Shape:
    slots = needed + (extra if mechanism == Mechanism.ara else 0)
    pool = extra if mechanism == Mechanism.pf and scheme == Scheme.on_prem else None
    failover = scheme == Scheme.cloud or mechanism == Mechanism.pf
    return Shape(slots, pool, failover, slots, slots, slots, pool or 0)


def check(needed: int, extra: int, scheme: str, horizon_s: float) -> None:
    """Raise InputError for values that no model accepts; horizon_s [s]."""
    require_count("needed", needed, least=1)
    require_count("extra or pool", extra)
    require_positive("horizon_s", horizon_s)
    scheme_of(scheme)


def share(value: float) -> float:
    return min(1.0, max(0.0, value))


def depths(shape: Shape, rates: FailureRates, least: int = 0) -> Iterator[Shape]:
    """Yield cuts of `shape`, each deeper than the one before; the last cuts nothing."""
    crash, limp = (shape.slots * r for r in (rates.crash_per_year, rates.limp_per_year))
    repair_s = None if rates.repair_s is None else rates.repair_s / rates.repair_crew
    body, free, limping = least, 0, 0
    if shape.failover:
        body += _first_cut(crash, rates.failover_s)
    arm = body
    if repair_s is not None and (not shape.failover or shape.pool is not None):
        arm = least + max(arm - least, _first_cut(crash, repair_s))
        free = _first_cut(YEAR_S / repair_s, rates.failover_s)
    if rates.limps and rates.limp_recovery_s is not None:
        limping = _first_cut(limp, rates.limp_recovery_s)
    struck = min(rates.common_cause_nodes or shape.slots, shape.slots)
    if rates.common_cause and max(arm, body) > least:
        body, arm = (min(x + 3 * struck, shape.slots) for x in (body, arm))
    while True:
        cut = Shape(
            slots=shape.slots,
            pool=shape.pool,
            failover=shape.failover,
            down_max=min(max(arm, body), shape.slots),
            limping_max=min(limping, shape.slots),
            body_max=min(body if shape.pool is not None else max(arm, body), shape.slots),
            free_max=min(free, shape.pool or 0),
        )
        yield cut
        complete = max(arm, body) == least or min(cut.body_max, cut.down_max) == shape.slots
        if complete and cut.limping_max in (0, shape.slots):
            return
        if max(arm, body) > least:
            body, arm, free = 2 * body, 2 * arm, 2 * free
        limping *= 2


def _first_cut(per_year: float, recovery_s: float) -> int:
    """Return the level at which a geometric law with ratio load rate x recovery is below _TAIL."""
    load = per_year * recovery_s / YEAR_S
    if load >= 0.3:
        return max(40, min(400, math.ceil(load + 8 * math.sqrt(load))))
    return max(3, math.ceil(math.log(_TAIL) / math.log(load)))


@dataclass(frozen=True)
class _Solved:
    """Rewards of a chain with a deep cut, as shares of time; beyond the cut counts as down."""

    chain: Chain
    values: Floats
    lost_share: float
    error: float


def _solve(
    shape: Shape,
    rates: FailureRates,
    horizon_s: float,
    counted: Callable[[Chain], Ints],
    groups_up: int,
    least: int = 0,
) -> _Solved:
    """Return the time by group of states (`counted`), from the shallowest cut with a good bracket.

    The time with enough nodes is the sum of the first groups, for any number up to `groups_up`.

    The bracket has two answers: either all is down for good beyond the cut (never better than the
    truth), or nothing passes it (never worse, because some crashes are left out).
    """
    for cut in depths(shape, rates, least):
        chain = build(cut, rates, horizon_s)
        rewards = _sums(counted(chain))
        high = expected_rewards(chain.flow(rewards))
        past = float(high.absorbed[PAST_CUT])
        lost_share = past + float(high.absorbed[DEAD])
        if past < U_PAST_CUT:
            return _Solved(chain, high.values, lost_share, high.error + past)
        low = expected_rewards(build(cut, rates, horizon_s, reflect=True).flow(rewards))
        ahead = np.cumsum(low.values)[:groups_up] - np.cumsum(high.values)[:groups_up]
        bracket = float(np.abs(ahead).max())
        if bracket < U_BRACKET:
            return _Solved(chain, high.values, lost_share, high.error + low.error + bracket)
    raise PlannerError(
        "availability model",
        expected=f"a bracket below {U_BRACKET}",
        got=f"{bracket:.1e} without any cut",
        hint="Please report the rates.",
    )


def _at_full_strength(needed: int, pool: int, rates: FailureRates, horizon_s: float) -> _Solved:
    """Solve passive failover from a pool: time without an empty place, by the number consumed."""

    def full(chain: Chain) -> Ints:
        return np.where(chain.shortfall(rates.limp_capacity) == 0, chain.consumed, -1)

    shape = shape_of(needed, pool, Mechanism.pf, Scheme.on_prem)
    return _solve(shape, rates, horizon_s, full, pool + 1)


@lru_cache(maxsize=4096)
def _by_extra(
    total: int, extra_max: int, rates: FailureRates, scheme: str, horizon_s: float
) -> tuple[Availability, ...]:
    """Solve active route anywhere with `total` active nodes, for each of 0..extra_max extra."""

    def beyond(chain: Chain) -> Ints:
        """Group 0: enough nodes whatever the split; then one group for each number missing."""
        return chain.shortfall(rates.limp_capacity)

    solved = _solve(
        shape_of(total, 0, Mechanism.ara, scheme),
        rates,
        horizon_s,
        beyond,
        extra_max + 1,
        least=extra_max,
    )
    missing = np.cumsum(solved.values[::-1])[::-1]  # share of time with at least so many missing
    table = []
    for extra in range(extra_max + 1):
        down = float(missing[extra + 1]) if extra + 1 < len(missing) else 0.0
        table.append(
            Availability(share(down + solved.lost_share), solved.error, solved.chain.states)
        )
    return tuple(table)


@lru_cache(maxsize=4096)
def _pool_availability(
    needed: int, pool: int, rates: FailureRates, horizon_s: float
) -> Availability:
    """Solve passive failover from a pool that is repaired, or that fails while it waits."""

    def down(chain: Chain) -> Ints:
        return (chain.shortfall(rates.limp_capacity) > 0).astype(np.int64)

    solved = _solve(shape_of(needed, pool, Mechanism.pf, Scheme.on_prem), rates, horizon_s, down, 1)
    value = float(solved.values[1]) if len(solved.values) > 1 else 0.0
    return Availability(share(value + solved.lost_share), solved.error, solved.chain.states)


def _dying_availability(
    needed: int, extra: int, rates: FailureRates, horizon_s: float
) -> Availability:
    from scipy.integrate import quad
    from scipy.special import bdtr

    total = needed + extra
    crash = rates.crash_per_year * horizon_s / YEAR_S

    def too_few(t: float) -> float:
        return float(bdtr(needed - 1, total, math.exp(-crash * t)))

    # the step is where the mean number up passes `needed`; its width is about 1/sqrt(total)
    middle = math.log(total / needed) / crash if extra else 0.0
    width = 1.0 / (crash * math.sqrt(total))
    marks = [middle + k * width for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
    edges = [0.0, *sorted(mark for mark in marks if 0.0 < mark < 1.0), 1.0]
    parts = [quad(too_few, a, b, epsabs=1e-13, epsrel=1e-12, limit=200) for a, b in pairwise(edges)]
    value = math.fsum(part[0] for part in parts)
    error = math.fsum(part[1] for part in parts) + 1e-14
    return _require_accuracy(Availability(share(value), error, total + 1))


def _require_accuracy(estimate: Availability) -> Availability:
    if not estimate.error_bound < U_ERROR_MAX:
        raise PlannerError(
            "availability model",
            expected=f"an error below {U_ERROR_MAX}",
            got=f"{estimate.error_bound:.1e}",
            hint="Please report the rates: the method does not cover them.",
        )
    return estimate


def _sums(groups: Ints) -> Any:
    """Return rewards (groups, n) for the time in the states of each group; -1 is in no group."""
    from scipy.sparse import csr_array

    states = np.flatnonzero(groups >= 0)
    shape = (int(groups.max(initial=0)) + 1, len(groups))
    return csr_array((np.ones(len(states)), (groups[states], states)), shape=shape)
