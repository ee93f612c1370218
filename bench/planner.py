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
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.problem import Problem
from optimizer.tests.synthetic import plan_instance

SEEDS = (0, 1, 2)
SIZES = (  # of the chains that are solved in both ways
    {"tiers": 3, "types": 40, "max_nodes": 20, "max_replicas": 3},
    {"tiers": 4, "types": 15, "max_nodes": 20, "max_replicas": 2},
    {"tiers": 5, "types": 15, "max_nodes": 20, "max_replicas": 2},
    {"tiers": 6, "types": 40, "max_nodes": 60, "max_replicas": 4},
)
LIMIT_S = 120.0


def measure() -> JsonObject:
    """Return seconds from the inputs to the proved plan, per drawn instance, with empty caches."""
    instances = [_plan(seed) for seed in SEEDS]
    seconds = [instance["seconds"] for instance in instances]
    return {
        "problem": "6 tiers, 40 instance types, up to 60 nodes, r up to 4; availability, p95, p99",
        "instances": instances,
        "seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
    }


def _plan(seed: int) -> JsonObject:
    case = plan_instance(seed)
    for function in (models.passive_failover_by_pool, models._by_extra, models._pool_availability):
        function.cache_clear()
    start_s = time.perf_counter()
    problem = case.problem()
    return {
        "seed": seed,
        "options": sum(len(tier) for tier in problem.options),
        **_solve(problem, start_s),
    }


def _solve(problem: Problem, start_s: float) -> JsonObject:
    try:
        solution = solve(problem, None, Deadline(LIMIT_S))
    except PlannerError:  # no plan, and no proof that there is none
        return {"seconds": time.perf_counter() - start_s, "usd_per_month": None, "proved": False}
    return {
        "seconds": time.perf_counter() - start_s,
        "usd_per_month": solution.usd_per_month,
        "proved": solution.proved,
        "proof": solution.proof,
        "gap": solution.gap,
        "cuts": solution.cuts,
    }


def main() -> None:
    """Print one line of JSON for each drawn chain, solved in both ways."""
    for size in SIZES:
        for seed in SEEDS:
            problem = plan_instance(seed, **size).problem()
            variants = {"labels": problem, "HiGHS alone": replace(problem, chain=None)}
            results = {
                name: _solve(variant, time.perf_counter()) for name, variant in variants.items()
            }
            sys.stdout.write(json.dumps({**size, "seed": seed, **results}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
