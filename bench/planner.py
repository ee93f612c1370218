"""Plans of six tiers, 40 instance types, up to 60 nodes and r up to 4: how long, and proved or not.

No peer is known that solves this problem; the figure stands for itself.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from optimizer.availability import models
from optimizer.plan.model import solve
from optimizer.tests.synthetic import plan_instance

SEEDS = (0, 1, 2)


def measure() -> dict[str, Any]:
    """Seconds from the inputs to the proved plan, per drawn instance, without caches."""
    found = [_one(seed) for seed in SEEDS]
    seconds = [one["seconds"] for one in found]
    return {
        "problem": "6 tiers, 40 instance types, up to 60 nodes, r up to 4; availability, p95, p99",
        "instances": found,
        "seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
    }


def _one(seed: int) -> dict[str, Any]:
    case = plan_instance(seed)
    for cached in (models.passive_failover_by_pool, models._by_extra, models._pool):
        cached.cache_clear()
    began = time.perf_counter()
    problem = case.problem()
    solution = solve(problem)
    return {
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "options": sum(len(tier) for tier in problem.options),
        "usd_per_month": solution.usd_per_month,
        "proved": solution.proved,
        "proof": solution.proof,
    }
