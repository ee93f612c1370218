"""If nothing is feasible: the least relaxation of each limit alone, or of all together.

Every value is verified by solving with exactly that value, and is the least: a slightly tighter one
(1e-9) is proved infeasible. The search solves the same problem with another objective: lost
availability if that limit is relaxed, otherwise small size, so that fast fleets come first. If no
limit suffices alone, all are relaxed by the least common factor, within 1 %; this is one of many
ways, and is named as such.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import Floats
from core.errors import InputError, PlannerError
from optimizer.plan.explain.curve import (
    Axis,
    Budget,
    SpentError,
    UnprovedError,
    axes,
    fleet_text,
    middle,
    predicted,
)
from optimizer.plan.explain.sensitivity import Variants
from optimizer.plan.solve.options import NODES_MAX, Option
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import FAMILIES, Path, Problem, violations
from optimizer.plan.solve.table import Columns, OptionTable, columns

SOLVES = 120
SECONDS = 45.0
_CHEAPEST_S = 20.0  # for the cost at the relaxed value
_FACTOR_MAX = 1e6
_OF_AXES = ("availability", "latency", "utilisation", "collision")  # families that have an axis


@dataclass(frozen=True)
class Relaxation:
    """A limit and the value that makes the plan feasible; `least`: no tighter value does (proved).

    limit: availability | p95_ms | p99_ms | utilisation | collision | max_nodes, or another family,
    which can only be dropped (value None). `path` is the cheapest fleet then.
    """

    limit: str
    asked: float | None
    value: float | None
    least: bool
    path: Path

    def body(self, problem: Problem) -> dict[str, object]:
        return {
            "limit": self.limit,
            "asked": self.asked,
            "value": self.value,
            "least": self.least,
            "usd_per_month": round(cost(self.path), 2),
            "fleet": fleet_text(self.path),
            "predicted": predicted(problem, self.path),
        }


def relaxations(
    problem: Problem, budget: Budget, source: Variants | None = None
) -> list[Relaxation]:
    """Return each limit whose relaxation alone makes `problem` feasible, with its tightest value.

    Parameters: problem infeasible; source makes the same problem with other max_nodes.
    Returns: none, if no single limit suffices (or the budget ended before one was found).
    """
    dropped_families = [f for f in FAMILIES if f not in _OF_AXES]
    tries: list[Callable[[], Relaxation | None]] = [
        *(lambda axis=axis: _relax_alone(problem, axis, budget) for axis in _limit_axes(problem)),
        *(
            lambda family=family: _drop_family(problem, family, budget)
            for family in dropped_families
        ),
    ]
    if source is not None:
        tries.append(lambda: _raise_max_nodes(source, budget))
    results: list[Relaxation] = []
    for search in tries:
        try:
            relaxation = search()
        except SpentError:  # the budget keeps the reason
            continue
        if relaxation is not None:
            results.append(relaxation)
    return results


def relax_together(problem: Problem, budget: Budget) -> list[Relaxation]:
    """Return all limits relaxed by one factor, the least within 1 %, and its cheapest fleet.

    Returns: the limits that give way, with values that suffice together (verified); none of them is
    claimed to be the least. Empty if no factor up to 1e6 helps, or the budget ended.
    """
    try:
        path = _least_factor(problem, budget)
    except SpentError:
        return []
    if path is None:
        return []
    results = []
    for axis in _limit_axes(problem):
        limit, reached = axis.limit(problem), axis.reached(problem, path)
        if limit is not None and reached > limit:
            value = axis.stated(reached)
            results.append(Relaxation(axis.key, axis.stated(limit), value, False, path))
            problem = axis.impose(problem, reached)
    return [] if violations(problem, path) else results


def _limit_axes(problem: Problem) -> list[Axis]:
    other_axes = (Axis("utilisation"), Axis("collision"))
    return [*axes(problem), *(axis for axis in other_axes if axis.limit(problem) is not None)]


def _relax_alone(problem: Problem, axis: Axis, budget: Budget) -> Relaxation | None:
    """Return the tightest x of one limit with which the others can be kept."""
    limit = axis.limit(problem)
    assert limit is not None
    coin = _lost_availability if axis.is_availability else _smallness
    search = replace(problem, options=_reprice_all(problem.options, coin))
    path = budget.solve(axis.impose(search, math.inf)).path
    if path is None:
        return None
    infeasible, best, walk, cut = limit, axis.reached(problem, path), True, False
    try:
        while True:
            below = axis.below(best)
            if below is None or below <= infeasible:
                break
            x = below if walk or math.isinf(best) else middle(infeasible, best)
            path = budget.solve(axis.impose(search, x)).path
            if path is None:
                infeasible = x
            else:
                best = axis.reached(problem, path)
            walk = not walk
    except SpentError:
        cut = True
    if math.isinf(best):
        return None
    cheapest = budget.last(axis.impose(problem, best), _CHEAPEST_S)
    if cheapest is None:  # a fleet exists: the search above, with the other objective, had one
        raise UnprovedError(budget.end(f"before it had the cheapest fleet at another {axis.key}"))
    return Relaxation(axis.key, axis.stated(limit), axis.stated(best), not cut, cheapest)


def _drop_family(problem: Problem, family: str, budget: Budget) -> Relaxation | None:
    """Return the relaxation that drops a family of limits that has no single number."""
    free = problem.without(family)
    path = None if free == problem else budget.solve(free).path
    return None if path is None else Relaxation(family, None, None, False, path)


def _raise_max_nodes(source: Variants, budget: Budget) -> Relaxation | None:
    """Return the least max_nodes with which all limits can be kept.

    It is searched up to the least of: four times as many, 40 more, the largest allowed number.
    """
    low = source.max_nodes
    high = min(4 * low, low + 40, NODES_MAX)
    if high <= low:
        return None

    def cheapest(nodes: int) -> Path | None:
        try:
            problem = source.problem(max_nodes=nodes, check=budget.check)
        except (InputError, PlannerError):  # outside the models' range: not decided
            many = f"before {nodes} max_nodes, which are more than can be listed or solved"
            raise SpentError(budget.end(many)) from None
        return budget.solve(problem).path

    best = cheapest(high)
    if best is None:
        return None
    while high - low > 1:
        nodes = (low + high) // 2
        path = cheapest(nodes)
        if path is None:
            low = nodes
        else:
            high, best = nodes, path
    return Relaxation("max_nodes", source.max_nodes, high, True, best)


def _least_factor(problem: Problem, budget: Budget) -> Path | None:
    """Return the cheapest fleet at the least common factor."""
    low, high, best = 1.0, 2.0, None
    while best is None:
        best = budget.solve(_loosen(problem, high)).path
        if best is None:
            if high >= _FACTOR_MAX:
                return None
            low, high = high, min(high * high, _FACTOR_MAX)
    while high / low > 1.01:
        factor = math.sqrt(low * high)
        path = budget.solve(_loosen(problem, factor)).path
        if path is None:
            low = factor
        else:
            high, best = factor, path
    return best


def _loosen(problem: Problem, factor: float) -> Problem:
    for axis in _limit_axes(problem):
        limit = axis.limit(problem)
        assert limit is not None
        problem = axis.impose(problem, limit * factor)
    return problem


def _reprice_all(
    options: Sequence[Sequence[Option]], coin: Callable[[Columns], Floats]
) -> tuple[Sequence[Option], ...]:
    return tuple(_reprice(tier, coin(columns(tier))) for tier in options)


def _reprice(tier: Sequence[Option], usd: Floats) -> Sequence[Option]:
    if isinstance(tier, OptionTable):
        table = copy.copy(tier)
        table.columns = replace(tier.columns, usd=usd)
        return table
    return tuple(replace(o, usd_per_month=float(v)) for o, v in zip(tier, usd, strict=True))


def _lost_availability(tier: Columns) -> Floats:
    """Return the loss, which adds up over tiers, scaled for a solver's tolerance of 1e-6."""
    return np.minimum(1e12, 1e7 * tier.loss)


def _smallness(tier: Columns) -> Floats:
    """Return a figure that falls with nodes and vCPUs, and is never below zero."""
    return 100.0 - np.log(tier.needed * tier.vcpus)
