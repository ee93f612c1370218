"""Why a plan costs what it costs, or why there is none."""

from __future__ import annotations

import itertools
import math

from optimizer.plan.model import Solution, solve
from optimizer.plan.problem import FAMILIES, Problem, availability_of
from optimizer.plan.screen import by_group, largest, routes

_CENT = 0.005


def binding(problem: Problem, found: Solution) -> list[str]:
    """The limits without which the plan would be cheaper, and by how much, dearest first."""
    assert found.usd_per_month is not None
    saved: list[tuple[float, str]] = []
    for family in _imposed(problem):
        other = solve(problem.without(family), known=found.path)
        assert other.usd_per_month is not None  # a relaxation of a feasible problem
        difference = found.usd_per_month - other.usd_per_month
        if difference > _CENT:
            saved.append((difference, f"{family}: without it {difference:.2f} USD a month less"))
    if not saved:
        return ["none of the SLOs: stability and the replicas' placement alone set this cost"]
    return [text for _, text in sorted(saved, reverse=True)]


def reasons(problem: Problem) -> list[str]:
    """Why nothing is feasible: which limit is short by how much, or that no single one suffices."""
    empty = [t for t, tier in enumerate(problem.options) if not tier]
    if empty:
        return [f"tier {t + 1}: no instance type and node count carries the load" for t in empty]
    alone = [f for f in _imposed(problem) if solve(problem.without(f)).path is not None]
    texts = [_shortfall(problem, family) for family in alone]
    if texts:
        return texts
    blamed = [_shortfall(problem, family) for family in _imposed(problem)]
    return ["no single limit can be blamed; each, taken alone:", *blamed]


def _imposed(problem: Problem) -> list[str]:
    imposed = {
        "availability": problem.availability_min is not None,
        "utilisation": not math.isinf(problem.utilisation_max),
        "collision": problem.collision_max < 1 and len(problem.options) > 1,
        "latency": bool(problem.latency_ms_max),
    }
    return [family for family in FAMILIES if imposed[family]]


def _shortfall(problem: Problem, family: str) -> str:
    if family == "availability":
        return _availability_shortfall(problem)
    if family == "latency":
        return _latency_shortfall(problem)
    if family == "utilisation":
        least = [min(o.utilisation for o in tier) for tier in problem.options]
        return (
            f"utilisation: at most {problem.utilisation_max:.0%} asked; the largest fleets allowed "
            f"run their tiers at {', '.join(f'{u:.0%}' for u in least)} with the other limits aside"
        )
    return (
        f"collision: at most {problem.collision_max:.0%} asked; more nodes or fewer replicas needed"
    )


def _availability_shortfall(problem: Problem) -> str:
    asked = problem.availability_min
    assert asked is not None
    best = [min(tier, key=lambda o: o.unavailability) for tier in problem.options]
    reached = availability_of(best)
    return (
        f"availability: {asked} asked, {reached:.9f} is the most that the allowed nodes and spares "
        f"reach, short by {max(0.0, asked - reached):.2g}"
    )


def _latency_shortfall(problem: Problem) -> str:
    best = fastest(problem)
    parts = []
    for q, asked in problem.latency_ms_max.items():
        reached = best.get(q, math.inf)
        if math.isinf(reached):
            parts.append(f"p{q}: {asked:g} ms asked, beyond what the model can evaluate")
        elif reached > asked:
            short = f"short by {reached - asked:.1f} ms"
            parts.append(
                f"p{q}: {asked:g} ms asked, {reached:.1f} ms at the largest fleets, {short}"
            )
        else:
            parts.append(
                f"p{q}: {asked:g} ms asked and {reached:.1f} ms possible, but not with the rest"
            )
    return "; ".join(parts)


def fastest(problem: Problem) -> dict[int, float]:
    """The least of each percentile [ms] over all plans, from each level's largest options."""
    tiers = [by_group(tier) for tier in problem.options]
    tops = [{key: largest(group) for key, group in tier.items()} for tier in tiers]
    best: dict[int, float] = {}
    for route in routes(tiers):
        for path in itertools.product(*(t[k] for t, k in zip(tops, route, strict=True))):
            for q, value in problem.latency(path).items():
                best[q] = min(best.get(q, math.inf), value)
    return best
