"""A first plan that keeps every limit: cheap, not proved to be the cheapest. It bounds the search.

Availability gets a price (`screen.best_price` and multiples of it), which picks the redundancy for
each size. On each route through the levels, the cheapest first, all tiers' sizes are raised
together until the page is fast enough, by bisection. Then each tier is changed alone to find the
effect of its options on the page, and the best sum of such changes is tried (a knapsack; effects
are assumed to add up, which is checked). `thinned` keeps of each group only the best option at that
price for its speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from core.tolerances import GRID_LEAST, GRID_ROUNDING, USD_LESS
from optimizer.plan.solve.deadline import Check, Deadline
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import (
    Group,
    Pool,
    best_price,
    cost,
    degraded_servers,
    front,
    routes_by_cost,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, percentile_share, violations
from optimizer.plan.solve.table import undominated

_PRICES = (1.0, 3.0, 30.0)  # of availability, times the fair one
_ROUTES = 12  # routes that are tried at each
_ROUTES_QUICK = 40
_ROUNDS = 4  # of changes tried on a route
_SIZES = 24  # options of a tier whose effect is looked at
_CELLS = 400  # of the knapsack
_HALVINGS = 7


def first_plan(
    problem: Problem, pools: Sequence[Pool], deadline: Deadline, *, quick: bool = False
) -> Path | None:
    """Return a plan that keeps all limits; None if this search finds none.

    `quick`: the first that is found on a few routes, where something better follows. Without time a
    first fleet is looked for all the same.
    """
    routes_max, rounds = (_ROUTES_QUICK, 0) if quick else (_ROUTES, _ROUNDS)
    best: Path | None = None
    fair = best_price(problem, pools)
    for price in dict.fromkeys(fair * factor for factor in _PRICES):
        if best is not None and deadline.over():
            break
        small = [front(problem, _cheap(problem, pool, price)) for pool in pools]
        groups = [_listed(pool) for pool in small]
        cheapest = routes_by_cost(small, [pool.columns.usd for pool in small])
        for _, route in itertools.islice(cheapest, routes_max):
            tiers = [groups[t][group] for t, group in enumerate(route)]
            if math.fsum(tier[0].usd_per_month for tier in tiers) >= cost(best):
                break
            if best is not None and deadline.over():
                break
            found = _on_route(problem, tiers, cost(best), rounds, deadline)
            if found is not None and cost(found) < cost(best):
                best = found
        if best is not None and (quick or not problem.latency_ms_max):
            break
    return best


def thinned(
    problem: Problem,
    pools: Sequence[Pool],
    price: float,
    time_s: Callable[[int, Option], float],
    check: Check,
) -> list[Pool]:
    """Per group and time in the tier the best option at this price of availability."""
    found = []
    for t, pool in enumerate(pools):
        small = front(problem, _cheap(problem, pool, price), check)
        (weight,) = weights_at(problem, [small], price)
        time = np.array([time_s(t, small.option(i)) for i in range(len(small))])
        table = np.stack([weight, time], axis=1)
        kept = [rows[undominated(table[rows], check)] for rows in small.groups.values()]
        found.append(small.keep(np.sort(np.concatenate(kept))))
    return found


def _cheap(problem: Problem, pool: Pool, price: float) -> Pool:
    """Per group, nodes, vCPUs and what is left of them when degraded the best option at this price
    of availability."""
    (weight,) = weights_at(problem, [pool], price)
    c = pool.columns
    degraded = problem.degraded
    left = np.zeros_like(c.needed) if degraded is None else degraded_servers(degraded, c)
    order = np.lexsort((c.usd, weight, left, c.vcpus, c.needed, c.replicas, c.upstream))
    keys = np.stack([c.upstream, c.replicas, c.needed, c.vcpus, left], axis=1)[order]
    fresh = np.any(np.diff(keys, axis=0) != 0, axis=1)
    return pool.keep(order[np.concatenate(([True], fresh))] if len(order) else order)


def _listed(pool: Pool) -> dict[Group, list[Option]]:
    """Options by group, cheapest first."""
    usd = pool.columns.usd
    return {
        group: [pool.option(int(i)) for i in rows[np.argsort(usd[rows], kind="stable")]]
        for group, rows in pool.groups.items()
    }


def _on_route(
    problem: Problem,
    tiers: Sequence[Sequence[Option]],
    bound: float,
    rounds: int,
    deadline: Deadline,
) -> Path | None:
    path = _up(problem, tiers, bound)
    if path is None or not problem.latency_ms_max:
        return path
    for _ in range(rounds):
        if deadline.over():
            break
        better = _changed(problem, tiers, path)
        if better is None:
            break
        path = better
    return path


def _up(problem: Problem, tiers: Sequence[Sequence[Option]], bound: float) -> Path | None:
    """Return all tiers at the same relative place of their lists, as near to the beginning as keeps
    the limits.
    """

    def at(depth: float) -> Path:
        return tuple(tier[round((len(tier) - 1) * depth)] for tier in tiers)

    def keeps(depth: float) -> bool:
        return not violations(problem, at(depth))

    if keeps(0.0):
        return at(0.0)
    low, high = 0.0, 1.0 / 64.0
    while not keeps(high):
        if high >= 1.0 or cost(at(high)) >= 4 * bound:
            return None
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return at(high)


def _changed(problem: Problem, tiers: Sequence[Sequence[Option]], path: Path) -> Path | None:
    """Return a cheaper plan that keeps the limits, by the tiers' single effects; None if none is
    found.
    """
    now = percentile_share(problem, path)
    effects = []
    for t, tier in enumerate(tiers):
        some = _spread(tier, path[t])
        effects.append(
            [(o, percentile_share(problem, (*path[:t], o, *path[t + 1 :])) - now) for o in some]
        )
    for part in (1.0, 0.9, 0.75, 0.5, 0.25):  # effects do not quite add up
        chosen = _knapsack(effects, part * (1.0 - now))
        if cost(chosen) < cost(path) - USD_LESS and not violations(problem, chosen):
            return chosen
    return None


def _spread(tier: Sequence[Option], held: Option) -> list[Option]:
    """Return the present option and about _SIZES others, more of them near it in the list."""
    here = tier.index(held)
    steps = {0, *(round(1.35**k) for k in range(_SIZES // 2))}
    indices = {here + s for s in steps} | {here - s for s in steps}
    return [tier[i] for i in sorted(indices) if 0 <= i < len(tier)]


def _knapsack(effects: Sequence[Sequence[tuple[Option, float]]], slack: float) -> Path:
    """Cheapest choice with effects that sum to at most `slack`, on a grid that rounds them up."""
    least = [min(effect for _, effect in tier) for tier in effects]
    cell = max(slack - math.fsum(least), GRID_LEAST) / _CELLS
    sizes = [
        [math.ceil(min((e - low) / cell, 2.0 * _CELLS) - GRID_ROUNDING) for _, e in tier]
        for tier, low in zip(effects, least, strict=True)
    ]
    best, picks = np.zeros(_CELLS + 1), []
    for tier, size in zip(effects, sizes, strict=True):
        after, pick = np.full(_CELLS + 1, math.inf), np.zeros(_CELLS + 1, dtype=np.int64)
        for number, ((option, _), used) in enumerate(zip(tier, size, strict=True)):
            if used > _CELLS:
                continue
            value = np.full(_CELLS + 1, math.inf)
            value[used:] = best[: _CELLS + 1 - used] + option.usd_per_month
            pick = np.where(value < after, number, pick)
            after = np.minimum(after, value)
        picks.append(pick)
        best = after
    path, at = [], _CELLS
    for tier, size, pick in reversed(list(zip(effects, sizes, picks, strict=True))):
        number = int(pick[at])
        path.append(tier[number][0])
        at -= size[number]
    return tuple(reversed(path))
