"""Fleets in order of cost: all that keep the limits other than latency, the cheapest first.

This is a best-first search over the layered graph of `solve.model`. The bound of a partial path is
its cost plus the least cost of the tiers behind it, so complete paths come in order. Two options of
a tier that differ only in their pool are equal in a simulation: the search takes the cheapest that
the budget of availability allows.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from core.tolerances import LOG_ROUNDING
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import Pool, budget, eligible_pools
from optimizer.plan.solve.problem import Path, Problem, violations
from optimizer.plan.solve.table import find_undominated

PARTIAL_MOST = 200_000  # partial paths looked at

Kind = tuple[tuple[float, int, int], ...]  # by tier: vCPUs of a machine, active ones, replicas


def kind_of(path: Path) -> Kind:
    """Return the features of a fleet that a simulation distinguishes."""
    return tuple((o.instance.vcpus, o.nodes, o.replicas) for o in path)


def fleets_by_cost(problem: Problem, deadline: Deadline) -> Iterator[Path]:
    """Yield fleets that keep all limits but latency, ascending in cost, one of each kind.

    Ends after PARTIAL_MOST partial paths, or at the deadline.
    """
    free = replace(problem, latency_ms_max={}, degraded=None)
    tiers = [_options_by_level(pool) for pool in eligible_pools(problem)]
    rest = _least_behind(tiers)
    most = budget(problem) * (1.0 + LOG_ROUNDING)
    if (1 not in rest[0]) or rest[0][1][1] > most:
        return
    order = itertools.count()
    heap: list[tuple[float, int, float, int, tuple[Option, ...]]]
    heap = [(rest[0][1][0], next(order), 0.0, 1, ())]
    known_kinds: set[Kind] = set()
    for _ in range(PARTIAL_MOST):
        if not heap or deadline.left_s() <= 0.0:
            return
        _, _, lost, level, path = heapq.heappop(heap)
        tier = len(path)
        if tier == len(tiers):
            if kind_of(path) not in known_kinds and not violations(free, path):
                known_kinds.add(kind_of(path))
                yield path
            continue
        spent = sum(o.usd_per_month for o in path)
        for option, loss in tiers[tier].get(level, ()):
            next_level = level * option.replicas
            if next_level not in rest[tier + 1]:
                continue
            usd, least = rest[tier + 1][next_level]
            if lost + loss + least <= most:
                cost = spent + option.usd_per_month + usd
                item = (cost, next(order), lost + loss, next_level, (*path, option))
                heapq.heappush(heap, item)


def _options_by_level(pool: Pool) -> dict[int, list[tuple[Option, float]]]:
    """Return the options by level, with their use of the availability budget.

    Options with the same type, active machines and replicas are left out if another one is cheaper
    and uses less.
    """
    c = pool.columns
    by_level: dict[int, list[tuple[Option, float]]] = {}
    keys = np.stack([c.vcpus, c.nodes, c.replicas, c.upstream], axis=1)
    _, groups = np.unique(keys, axis=0, return_inverse=True)
    groups = groups.reshape(-1)
    rows = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[rows])) + 1
    for part in np.split(rows, bounds) if len(rows) else []:
        for i in part[find_undominated(np.stack([c.usd[part], c.loss[part]], axis=1))]:
            option = pool.option(int(i))
            by_level.setdefault(option.upstream, []).append((option, float(c.loss[i])))
    return by_level


def _least_behind(
    tiers: list[dict[int, list[tuple[Option, float]]]],
) -> list[dict[int, tuple[float, float]]]:
    """Return the least cost and the least loss of the remaining tiers, by tier and level."""
    last = tiers[-1].items()
    levels = {level * o.replicas: (0.0, 0.0) for level, options in last for o, _ in options}
    least_by_tier = [levels]
    for tier in reversed(tiers):
        least: dict[int, tuple[float, float]] = {}
        for level, options in tier.items():
            ways = [
                (o.usd_per_month + behind[0], loss + behind[1])
                for o, loss in options
                if level * o.replicas in levels
                for behind in [levels[level * o.replicas]]
            ]
            if ways:
                least[level] = (min(usd for usd, _ in ways), min(loss for _, loss in ways))
        least_by_tier.append(least)
        levels = least
    return least_by_tier[::-1]
