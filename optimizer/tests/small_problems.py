"""Small random planning problems, and all their plans: what the explanations are held against."""

from __future__ import annotations

import itertools
import math
from typing import Any

from hypothesis import strategies as st

from optimizer.plan.explain.curve import Axis
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.problem import Path, Problem, violations
from optimizer.prices import Instance


def option(tier: int, upstream: int, replicas: int, needed: int, vcpus: int, **keys: Any) -> Option:
    """An option of tier `tier` whose cost, unavailability, utilisation and collision are given."""
    usd = keys.get("usd", 10.0 * needed * vcpus)
    return Option(tier=f"t{tier}", upstream=upstream, replicas=replicas,
                  instance=Instance(f"i{vcpus}", vcpus, 8.0, usd / 730 / needed), needed=needed,
                  mechanism=keys.get("mechanism", "ara"), extra=keys.get("extra", 0),
                  usd_per_month=usd, unavailability=keys.get("u", 1e-4),
                  utilisation=keys.get("used", 0.5), collision=keys.get("met", 0.0))  # fmt: skip


def latency(path: Path) -> dict[int, float]:
    """Return made-up percentiles that fall with nodes and vCPUs and depend on the replicas."""
    value = 0.0
    for choice in path:
        load = choice.upstream * choice.replicas / (choice.needed * choice.instance.vcpus)
        value += 100.0 * (1 + load) / (choice.instance.vcpus * choice.replicas**0.5)
        value += 40.0 / choice.needed
    return {95: value, 99: 1.2 * value + 90.0 / path[-1].needed}


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """Two or three tiers, every level that the tiers above can make, costs and losses at random."""
    levels, tiers = {1}, []
    for tier in range(draw(st.integers(2, 3))):
        options = []
        for level in sorted(levels):
            for replicas in draw(st.sampled_from([(1,), (1, 2)])):
                for _ in range(draw(st.integers(2, 4))):
                    options.append(
                        option(tier, level, replicas, needed=draw(st.integers(replicas, 5)),
                               vcpus=draw(st.sampled_from([1, 2, 4])),
                               usd=float(draw(st.integers(1, 40))),
                               mechanism=draw(st.sampled_from(["ara", "pf"])),
                               extra=draw(st.integers(0, 2)),
                               u=draw(st.sampled_from([1e-7, 3e-7, 5e-7, 1e-6, 2e-5, 1e-4, 1e-3])),
                               used=draw(st.sampled_from([0.3, 0.6, 0.8])),
                               met=0.0 if level == 1 else draw(st.sampled_from([0.2, 0.6])))
                    )  # fmt: skip
        levels = {o.upstream * o.replicas for o in options}
        tiers.append(tuple(options))
    return Problem(
        options=tuple(tiers),
        latency=latency,
        unavailability_max=draw(st.sampled_from([0.01, 1e-3, 2e-4, 1e-6])),
        latency_ms_max={95: draw(st.floats(60.0, 500.0)), 99: draw(st.floats(100.0, 600.0))},
        utilisation_max=draw(st.sampled_from([0.7, 1.0])),
        collision_max=draw(st.sampled_from([0.5, 1.0])),
    )


def all_plans(problem: Problem) -> list[tuple[float, Path]]:
    """Cost and path of every plan that keeps every limit, the cheapest first."""
    plans = []
    for path in itertools.product(*problem.options):
        level = 1
        for choice in path:
            if choice.upstream != level:
                break
            level *= choice.replicas
        else:
            if not violations(problem, path):
                plans.append((math.fsum(o.usd_per_month for o in path), path))
    return sorted(plans, key=lambda plan: plan[0])


def true_front(problem: Problem, axis: Axis) -> list[tuple[float, float]]:
    """(x, cost) of all points that no plan matches or beats in both, the cheapest first.

    Availabilities that a `Curve` does not tell apart (1e-11) are one point.
    """
    same = 1e-11 if axis.is_availability else 0.0
    unlimited = axis.impose(problem, math.inf)
    points = sorted((usd, axis.reached(unlimited, path)) for usd, path in all_plans(unlimited))
    front: list[tuple[float, float]] = []
    for usd, x in points:
        if not front or x < front[-1][0] * (1 - 1e-8) - same:
            front.append((x, usd))
    return front
