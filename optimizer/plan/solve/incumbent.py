"""A first plan that keeps every limit: cheap, not proved to be the cheapest. It bounds the search.

Availability gets a price (`presolve.best_price` and multiples of it), which picks the redundancy
for each size. On each route through the levels, the cheapest first, the sizes of all tiers are
raised together until the page is fast enough, by bisection. Then each tier is changed alone to find
the effect of its options on the page, and the best sum of such changes is tried. (This is a
knapsack problem. It assumes that effects add up, so the result is checked.) `thin_pools` keeps of
each group only the options that are the best for their speed at that price.
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
    keep_front,
    routes_by_cost,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, percentile_share, violations
from optimizer.plan.solve.table import find_undominated

_PRICES = (1.0, 3.0, 30.0)  # of availability, times the fair one
_ROUTES = 12  # routes that are tried at each price
_ROUTES_QUICK = 40
_ROUNDS = 4  # of changes tried on a route
_SIZES = 24  # options of a tier whose effect is looked at
_CELLS = 400  # of the knapsack
_HALVINGS = 7


def first_plan(
    problem: Problem, pools: Sequence[Pool], deadline: Deadline, *, quick: bool
) -> Path | None:
    """Return a plan that keeps all limits; None if this search finds none.

    `quick`: return the first plan of a few routes, for callers that improve it. Even without time,
    the search goes on until it has a first fleet.
    """
    routes_max, rounds = (_ROUTES_QUICK, 0) if quick else (_ROUTES, _ROUNDS)
    best: Path | None = None
    fair = best_price(problem, pools)
    for price in dict.fromkeys(fair * factor for factor in _PRICES):
        if best is not None and deadline.over():
            break
        small = [keep_front(problem, _keep_cheapest(problem, pool, price)) for pool in pools]
        groups = [_list_by_group(pool) for pool in small]
        cheapest = routes_by_cost(small, [pool.columns.usd for pool in small])
        for _, route in itertools.islice(cheapest, routes_max):
            tiers = [groups[t][group] for t, group in enumerate(route)]
            if math.fsum(tier[0].usd_per_month for tier in tiers) >= cost(best):
                break
            if best is not None and deadline.over():
                break
            plan = _search_route(problem, tiers, cost(best), rounds, deadline)
            if plan is not None and cost(plan) < cost(best):
                best = plan
        if best is not None and (quick or not problem.latency_ms_max):
            break
    return best


def thin_pools(
    problem: Problem,
    pools: Sequence[Pool],
    price: float,
    time_s: Callable[[int, Option], float],
    check: Check,
) -> list[Pool]:
    """Keep, per group and time in the tier, the best option at this price of availability."""
    thin = []
    for t, pool in enumerate(pools):
        small = keep_front(problem, _keep_cheapest(problem, pool, price), check)
        (weight,) = weights_at(problem, [small], price)
        time = np.array([time_s(t, small.option(i)) for i in range(len(small))])
        table = np.stack([weight, time], axis=1)
        parts = [rows[find_undominated(table[rows], check)] for rows in small.groups.values()]
        thin.append(small.keep(np.sort(np.concatenate(parts))))
    return thin


def _keep_cheapest(problem: Problem, pool: Pool, price: float) -> Pool:
    """Keep the best option at this price of availability, per group and size.

    The size: nodes, vCPUs, and the servers that are left when degraded."""
    (weight,) = weights_at(problem, [pool], price)
    c = pool.columns
    degraded = problem.degraded
    left = np.zeros_like(c.needed) if degraded is None else degraded_servers(degraded, c)
    order = np.lexsort((c.usd, weight, left, c.vcpus, c.needed, c.replicas, c.upstream))
    keys = np.stack([c.upstream, c.replicas, c.needed, c.vcpus, left], axis=1)[order]
    fresh = np.any(np.diff(keys, axis=0) != 0, axis=1)
    return pool.keep(order[np.concatenate(([True], fresh))] if len(order) else order)


def _list_by_group(pool: Pool) -> dict[Group, list[Option]]:
    """Return the options by group, cheapest first."""
    usd = pool.columns.usd
    return {
        group: [pool.option(int(i)) for i in rows[np.argsort(usd[rows], kind="stable")]]
        for group, rows in pool.groups.items()
    }


def _search_route(
    problem: Problem,
    tiers: Sequence[Sequence[Option]],
    bound: float,
    rounds: int,
    deadline: Deadline,
) -> Path | None:
    path = _raise_together(problem, tiers, bound)
    if path is None or not problem.latency_ms_max:
        return path
    for _ in range(rounds):
        if deadline.over():
            break
        better = _improve(problem, tiers, path)
        if better is None:
            break
        path = better
    return path


def _raise_together(
    problem: Problem, tiers: Sequence[Sequence[Option]], bound: float
) -> Path | None:
    """Return the first plan that keeps the limits, with all tiers at the same depth of their lists.

    The depth is a share of the length of each list.
    """

    def path_at(depth: float) -> Path:
        return tuple(tier[round((len(tier) - 1) * depth)] for tier in tiers)

    def keeps(depth: float) -> bool:
        return not violations(problem, path_at(depth))

    if keeps(0.0):
        return path_at(0.0)
    low, high = 0.0, 1.0 / 64.0
    while not keeps(high):
        if high >= 1.0 or cost(path_at(high)) >= 4 * bound:
            return None
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return path_at(high)


def _improve(problem: Problem, tiers: Sequence[Sequence[Option]], path: Path) -> Path | None:
    """Return a cheaper plan that keeps the limits, by the effects of single tiers, or None."""
    share = percentile_share(problem, path)
    effects = []
    for t, tier in enumerate(tiers):
        nearby = _pick_nearby(tier, path[t])
        effects.append(
            [(o, percentile_share(problem, (*path[:t], o, *path[t + 1 :])) - share) for o in nearby]
        )
    for part in (1.0, 0.9, 0.75, 0.5, 0.25):  # effects do not quite add up
        chosen = _knapsack(effects, part * (1.0 - share))
        if cost(chosen) < cost(path) - USD_LESS and not violations(problem, chosen):
            return chosen
    return None


def _pick_nearby(tier: Sequence[Option], present: Option) -> list[Option]:
    """Return the present option and about _SIZES others, more of them near it in the list."""
    position = tier.index(present)
    steps = {0, *(round(1.35**k) for k in range(_SIZES // 2))}
    indices = {position + s for s in steps} | {position - s for s in steps}
    return [tier[i] for i in sorted(indices) if 0 <= i < len(tier)]


def _knapsack(effects: Sequence[Sequence[tuple[Option, float]]], slack: float) -> Path:
    """Return the cheapest choice whose effects sum to at most `slack`.

    The effects are rounded up on a grid."""
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
    path, cells_left = [], _CELLS
    for tier, size, pick in reversed(list(zip(effects, sizes, picks, strict=True))):
        number = int(pick[cells_left])
        path.append(tier[number][0])
        cells_left -= size[number]
    return tuple(reversed(path))
