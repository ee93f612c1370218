"""Presolve: removes options that break a limit, are dominated, or too expensive, before the solver.

An option is removed if it breaks a limit of its own tier, if another one of its kind (same level,
same replicas) is as good in all remaining respects, or if the cheapest plan with it costs more than
a known plan. That cheapest plan is bounded from below over the layered graph, with a price for
availability:

    LB(o) = max over price >= 0 of  min over paths through o of  sum (c + price * u)  -  price

with u the share of the availability budget that an option takes (at most 1 together).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.arrays import Floats, Ints, Mask
from core.tolerances import LOG_ROUNDING, USD_RELATIVE, USD_ROUNDING
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.options import Degraded, Option
from optimizer.plan.solve.problem import Path, Problem
from optimizer.plan.solve.table import Columns, columns, find_undominated

Group = tuple[int, int]  # (upstream amplification, replicas)
_PRICES = 40  # prices of availability tried


@dataclass(frozen=True, eq=False)
class Pool:
    """The remaining options of a tier: rows of `options`, and their columns."""

    options: Sequence[Option]
    rows: Ints
    columns: Columns

    def __len__(self) -> int:
        return len(self.rows)

    def keep(self, rows: Ints | Mask) -> Pool:
        return Pool(self.options, self.rows[rows], self.columns.take(rows))

    def option(self, i: int) -> Option:
        return self.options[int(self.rows[i])]

    @cached_property
    def groups(self) -> dict[Group, Ints]:
        """Indices of the remaining options, by level and replicas."""
        c = self.columns
        order = np.lexsort((c.replicas, c.upstream))
        pairs = np.stack([c.upstream[order], c.replicas[order]], axis=1)
        starts = np.flatnonzero(np.any(np.diff(pairs, axis=0), axis=1)) + 1
        parts = np.split(order, starts) if len(order) else []
        return {(int(c.upstream[rows[0]]), int(c.replicas[rows[0]])): rows for rows in parts}


def cost(path: Path | None) -> float:
    """Return the cost of a plan [USD/month]; infinite for no plan."""
    return math.inf if path is None else math.fsum(o.usd_per_month for o in path)


def budget(problem: Problem) -> float:
    """Return the common budget of loss, -log A; infinite without a limit of availability."""
    most = problem.unavailability_max
    return math.inf if most is None or most >= 1.0 else -math.log1p(-most)


def eligible_pools(problem: Problem) -> list[Pool]:
    """Return the options that keep the limits of a single tier."""
    pools = []
    for tier in problem.options:
        c = columns(tier)
        fits = (
            (c.loss <= budget(problem) * (1.0 + LOG_ROUNDING))
            & (c.utilisation <= problem.utilisation_max)
            & (c.collision <= problem.collision_max)
        )
        if problem.degraded is not None:
            fits &= _degraded_utilisation(problem.degraded, c) < 1.0
        pools.append(Pool(tier, np.flatnonzero(fits), c.take(fits)))
    return pools


def degraded_servers(degraded: Degraded, c: Columns) -> Ints:
    """Return the servers of each row that are up in the degraded condition."""
    return np.minimum(c.needed, c.nodes - degraded.nodes_down)


def _degraded_utilisation(degraded: Degraded, c: Columns) -> Floats:
    """Return `Degraded.utilisation` of all rows."""
    left = degraded_servers(degraded, c)
    capacity = left - degraded.limping * (1.0 - degraded.limp_speed)
    stands = (left >= np.maximum(c.replicas, max(degraded.limping, 1))) & (capacity > 0)
    load = (c.utilisation - c.written) * c.needed + c.written * left
    slow = c.written / degraded.limp_speed if degraded.limping else 0.0
    used = np.maximum(load / np.where(stands, capacity, 1.0), slow)
    return np.where(stands, used, math.inf)


def keep_front(
    problem: Problem,
    pool: Pool,
    check: Check = unbounded,
    paid: Sequence[Floats | Ints] | None = None,
) -> Pool:
    """Remove options that another one of the same group matches or beats.

    All remaining options keep the limits of their own tier. So only the cost (or `paid` in its
    place) and the coupled limits distinguish them: the loss, and the terms of the latency.
    """
    c = pool.columns
    table = np.stack([*(paid or [c.usd]), *_coupled_columns(problem, c)], axis=1).astype(np.float64)
    parts = [rows[find_undominated(table[rows], check)] for rows in pool.groups.values()]
    return pool.keep(np.sort(np.concatenate(parts))) if parts else pool


def _coupled_columns(problem: Problem, c: Columns) -> list[Floats | Ints]:
    terms: list[Floats | Ints] = []
    if problem.unavailability_max is not None:
        terms.append(c.unavailability)
    if problem.latency_ms_max:
        terms += [-c.needed, -c.vcpus]
        if problem.degraded is not None:
            terms.append(-degraded_servers(problem.degraded, c))
    return terms


@dataclass(frozen=True)
class Bounds:
    """Least sums of a weight per tier, from the front to each level and from each level on."""

    before: tuple[Mapping[int, float], ...]  # [t][level]: tiers above t
    after: tuple[Mapping[int, float], ...]  # [t][level]: tier t and below
    least: float

    def least_through(self, t: int, pool: Pool, weight: Floats) -> Floats:
        """Return the least sum over paths through each option of tier t; infinite without one."""
        c = pool.columns
        above = _look_up(self.before[t], c.upstream)
        below = _look_up(self.after[t + 1], c.upstream * c.replicas)
        return above + weight + below


def bounds(pools: Sequence[Pool], weights: Sequence[Floats]) -> Bounds:
    """Return the least sums of weights over the paths of the layered graph."""
    arcs = _arcs(pools, weights)
    before: list[dict[int, float]] = [{1: 0.0}]
    for tier in arcs:
        reached: dict[int, float] = {}
        for (level, r), least in tier.items():
            if level in before[-1]:
                value = before[-1][level] + least
                reached[level * r] = min(reached.get(level * r, math.inf), value)
        before.append(reached)
    after: list[dict[int, float]] = [dict.fromkeys(before[-1], 0.0)]
    for tier in reversed(arcs):
        left: dict[int, float] = {}
        for (level, r), least in tier.items():
            if level * r in after[0]:
                value = least + after[0][level * r]
                left[level] = min(left.get(level, math.inf), value)
        after.insert(0, left)
    return Bounds(tuple(before), tuple(after), after[0].get(1, math.inf))


def routes_by_cost(
    pools: Sequence[Pool], weights: Sequence[Floats]
) -> Iterator[tuple[float, tuple[Group, ...]]]:
    """Yield routes through the levels, (1, r1), (r1, r2), (r1 r2, r3), ..., in ascending order.

    Each comes with the least sum of a weight on it, which is its place in the order. They are found
    one by one, as there may be millions: a partial route is ordered by its sum and the least
    sum from its end on.
    """
    if not all(len(pool) for pool in pools):
        return
    arcs, after = _arcs(pools, weights), bounds(pools, weights).after
    heap: list[tuple[float, float, int, tuple[Group, ...]]]
    heap = [(after[0].get(1, math.inf), 0.0, 1, ())]
    while heap:
        least, spent, level, route = heapq.heappop(heap)
        t = len(route)
        if t == len(pools):
            yield least, route
            continue
        for group, weight in arcs[t].items():
            reached = group[0] * group[1]
            if group[0] == level and reached in after[t + 1]:
                used = spent + weight
                item = (used + after[t + 1][reached], used, reached, (*route, group))
                heapq.heappush(heap, item)


def _arcs(pools: Sequence[Pool], weights: Sequence[Floats]) -> list[dict[Group, float]]:
    """Return the least weight of each group, by tier."""
    return [
        {group: float(weight[rows].min()) for group, rows in pool.groups.items()}
        for pool, weight in zip(pools, weights, strict=True)
    ]


def _look_up(known: Mapping[int, float], levels: Ints) -> Floats:
    most = int(levels.max(initial=0))
    values = np.full(most + 1, math.inf)
    for level, value in known.items():
        if level <= most:
            values[level] = value
    result: Floats = values[levels]
    return result


def weights_at(problem: Problem, pools: Sequence[Pool], price: float) -> list[Floats]:
    """Return the cost of each option, with `price` USD a month for the availability budget."""
    if problem.unavailability_max is None:
        return [pool.columns.usd for pool in pools]
    total = budget(problem)
    return [pool.columns.usd + (price / total) * pool.columns.loss for pool in pools]


def best_price(problem: Problem, pools: Sequence[Pool]) -> float:
    """Return approximately the price of availability with the greatest bound on the cost."""
    if problem.unavailability_max is None or not all(len(pool) for pool in pools):
        return 0.0
    scale = math.fsum(float(pool.columns.usd.min()) for pool in pools)

    def bound(price: float) -> float:
        return bounds(pools, weights_at(problem, pools, price)).least - price

    prices = [0.0, *(abs(scale) * np.geomspace(1e-3, 1e3, _PRICES)).tolist()]
    return float(max(prices, key=bound))


def keep_affordable(problem: Problem, pools: Sequence[Pool], most: float) -> list[Pool]:
    """Return the options that lie on a path and can be in a plan of at most `most` USD a month."""
    for price in (0.0, best_price(problem, pools)):
        if not all(len(pool) for pool in pools):
            break
        weights = weights_at(problem, pools, price)
        known = bounds(pools, weights)
        large = price + (abs(most) if math.isfinite(most) else 0.0)
        rounding = USD_ROUNDING + USD_RELATIVE * large
        ceiling = most + price + rounding
        pools = [
            pool.keep(np.isfinite(least) & (least <= ceiling))
            for t, pool in enumerate(pools)
            for least in [known.least_through(t, pool, weights[t])]
        ]
    return list(pools)
