"""Plans of six tiers, 40 instance types, up to 60 nodes and r up to 4: time and proof.

No peer is known that solves this problem. `python -m bench.planner` compares the labels
(`optimizer.plan.solve.labels`) with HiGHS alone, on chains of three to six tiers.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import replace

from core.errors import PlannerError
from core.json_object import JsonObject
from optimizer.availability import models
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.problem import Problem
from optimizer.tests.synthetic import plan_instance

SEEDS = (0, 1, 2)
SIZES = (  # of the chains that both ways are held against
    {"tiers": 3, "types": 40, "max_nodes": 20, "max_replicas": 3},
    {"tiers": 4, "types": 15, "max_nodes": 20, "max_replicas": 2},
    {"tiers": 5, "types": 15, "max_nodes": 20, "max_replicas": 2},
    {"tiers": 6, "types": 40, "max_nodes": 60, "max_replicas": 4},
)
LIMIT_S = 120.0


def measure() -> JsonObject:
    """Return seconds from the inputs to the proved plan, per drawn instance, with empty caches."""
    found = [_one(seed) for seed in SEEDS]
    seconds = [one["seconds"] for one in found]
    return {
        "problem": "6 tiers, 40 instance types, up to 60 nodes, r up to 4; availability, p95, p99",
        "instances": found,
        "seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
    }


def _one(seed: int) -> JsonObject:
    case = plan_instance(seed)
    for cached in (models.passive_failover_by_pool, models._by_extra, models._pool):
        cached.cache_clear()
    began = time.perf_counter()
    problem = case.problem()
    return {
        "seed": seed,
        "options": sum(len(tier) for tier in problem.options),
        **_solved(problem, began),
    }


def _solved(problem: Problem, began: float) -> JsonObject:
    try:
        found = solve(problem, limit_s=LIMIT_S)
    except PlannerError:  # no plan, and no proof that there is none
        return {"seconds": time.perf_counter() - began, "usd_per_month": None, "proved": False}
    return {
        "seconds": time.perf_counter() - began,
        "usd_per_month": found.usd_per_month,
        "proved": found.proved,
        "proof": found.proof,
        "gap": found.gap,
        "cuts": found.cuts,
    }


def main() -> None:
    """Print one line of JSON for each drawn chain, solved in both ways."""
    for size in SIZES:
        for seed in SEEDS:
            problem = plan_instance(seed, **size).problem()
            ways = {"labels": problem, "HiGHS alone": replace(problem, chain=None)}
            found = {name: _solved(one, time.perf_counter()) for name, one in ways.items()}
            sys.stdout.write(json.dumps({**size, "seed": seed, **found}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
