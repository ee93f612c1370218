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
from optimizer.plan.solve.presolve import Pool, bounds, budget, eligible_pools
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
    pools = eligible_pools(problem)
    tiers = [_options_by_level(pool) for pool in pools]
    usd_behind = bounds(pools, [pool.columns.usd for pool in pools]).after
    loss_behind = bounds(pools, [pool.columns.loss for pool in pools]).after
    most = budget(problem) * (1.0 + LOG_ROUNDING)
    if 1 not in loss_behind[0] or loss_behind[0][1] > most:
        return
    order = itertools.count()
    heap: list[tuple[float, int, float, int, tuple[Option, ...]]]
    heap = [(usd_behind[0][1], next(order), 0.0, 1, ())]
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
            if next_level not in loss_behind[tier + 1]:
                continue
            if lost + loss + loss_behind[tier + 1][next_level] <= most:
                cost = spent + option.usd_per_month + usd_behind[tier + 1][next_level]
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
