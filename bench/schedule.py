"""Schedules of six tiers over 24 hours: 40 instance types, four ways to pay; time and gap.

A small problem is also solved by plain enumeration: one tier, two kinds of machine, three periods.
No peer is known that solves the whole problem; `program.py` has the same program in linopy.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from dataclasses import replace

from bench import program
from bench.process import run_peer
from optimizer.plan.inputs.load import Load
from optimizer.plan.inputs.purchase import Purchase, with_purchases
from optimizer.plan.inputs.schedule import DeclaredQuota, DeclaredSchedule, Hours, hourly_problem
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.schedule import Design, HourlyProblem, HourlyTier, Period
from optimizer.plan.solve.schedule_model import ScheduleModel
from optimizer.plan.solve.schedule_search import cheapest_schedule, violations
from optimizer.prices import Instance
from optimizer.tests.synthetic import plan_instance

SEEDS = (0, 1, 2)
LIMIT_S = 60.0
DAY = [0.6, 0.5, 0.4, 0.4, 0.4, 0.5, 0.7, 0.9, 1.1, 1.3, 1.4, 1.4]
DAY += [1.4, 1.3, 1.3, 1.2, 1.2, 1.3, 1.4, 1.4, 1.3, 1.1, 0.9, 0.7]
WAYS = (  # in addition to on demand
    Purchase(name="reserved-1y", discount=0.37, committed=True),
    Purchase(name="reserved-3y", discount=0.55, committed=True),
    Purchase(name="spot", discount=0.65, interruptions_per_year=100.0),
)


def measure() -> dict[str, object]:
    """Return seconds and gap per drawn instance, of free and of constrained hours.

    The constraints are starts, run times and a quota. A small instance is also enumerated.
    """
    free = [_solve(_instance(seed, None), seed) for seed in SEEDS]
    tied = [_solve(_instance(seed, _ties()), seed) for seed in SEEDS]
    return {
        "problem": "6 tiers, 24 hours, 40 instance types, 4 ways to pay; availability",
        "free": free,
        "tied": tied,
        "enumeration": _compare_with_enumeration(),
        "written_down": [_write_down(*size) for size in ((2, 3, 24), (6, 20, 168))],
    }


def _ties() -> DeclaredSchedule:
    # the balanced family; its smallest sizes are in most plans
    quota = DeclaredQuota(instance_types=["g1", "g2", "g4", "g8"], vcpus=64.0)
    return DeclaredSchedule(start_s=300.0, run_hours_min=3, quotas=[quota])


def _instance(seed: int, declared: DeclaredSchedule | None) -> Hours:
    case = plan_instance(seed)
    book = with_purchases(case.book, case.region, WAYS)
    slo = case.slo.model_copy(update={"p95_ms": None, "p99_ms": None})
    case = replace(case, book=book, slo=slo)
    machine = book.instances(case.region)[0]
    path = tuple(
        Option(tier.name, 1, 1, machine, 1, "ara", 0, 0.0, 0.0, 0.0, 0.0) for tier in case.tiers
    )
    problem = hourly_problem(case, Load(day=DAY), declared, path)
    assert problem is not None
    return problem


def _solve(hours: Hours, seed: int) -> dict[str, object]:
    start_s, cpu_start_s = time.perf_counter(), time.process_time()
    result = cheapest_schedule(hours.problem, Deadline(LIMIT_S))
    assert result.schedule is None or not violations(hours.problem, result.schedule)
    return {
        "seed": seed,
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - cpu_start_s,
        "usd_per_month": result.value,
        "proved": result.proved,
        "gap": result.gap,
        "designs": result.designs,
    }


def _compare_with_enumeration() -> dict[str, object]:
    """Enumerate all numbers of two kinds of machine in three periods, by plain loops."""
    kinds = (
        Instance("m@reserved", 2.0, 8.0, 0.05, usd_per_month_off=0.05 * 730.0, purchase="reserved"),
        Instance("m", 2.0, 8.0, 0.08),
    )
    tier = HourlyTier("t", kinds, (10.0, 10.0), 68.0, 1, 20, lambda *_: 0.0)
    problem = HourlyProblem((tier,), tuple(Period(load, 8) for load in (1.0, 0.6, 0.3)))
    start_s = time.perf_counter()
    result = cheapest_schedule(problem, Deadline(LIMIT_S))
    searched_s = time.perf_counter() - start_s
    start_s, count, best = time.perf_counter(), 0, math.inf
    rows = list(itertools.product(range(8), repeat=3))
    for reserved, hourly in itertools.product(rows, rows):
        count += 1
        carries_load = all(
            10.0 * (a + b) >= 68.0 * period.load
            for a, b, period in zip(reserved, hourly, problem.periods, strict=True)
        )
        if carries_load:
            best = min(best, 36.5 * max(reserved) + 58.4 * sum(hourly) / 3)
    return {
        "fleets": count,
        "enumeration_s": time.perf_counter() - start_s,
        "search_s": searched_s,
        "usd_per_month": best,
        "difference_usd": abs(best - (result.value or 0.0)),
    }


def _write_down(tiers: int, kinds: int, periods: int) -> dict[str, object]:
    """Write the same program in Pyomo, as the planner does, and in linopy."""
    machines = tuple(
        Instance(f"m{k + 1}", k + 1.0, 8.0, program.price(k) / 730.0) for k in range(kinds)
    )
    loads = [[program.load(t, p) for p in range(periods)] for t in range(tiers)]
    hourly_tiers = tuple(
        HourlyTier(f"t{t}", machines, tuple(m.vcpus for m in machines), max(q), 1, 200, _never)
        for t, q in enumerate(loads)
    )
    # the share of the busiest hour does not matter: each design has its demand given
    problem = HourlyProblem(
        hourly_tiers, tuple(Period(1.0, 1) for _ in range(periods)), run_h_min=3
    )
    units = tuple(float(k + 1) for k in range(kinds))
    pools = [
        [Design(t, tuple(range(kinds)), units, 1.0, (1,) * periods, 0, tuple(q), False, 0.0)]
        for t, q in enumerate(loads)
    ]
    start_s, cpu_start_s = time.perf_counter(), time.process_time()
    model = ScheduleModel(problem, pools)
    model.hand_over()
    figures: dict[str, object] = {
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - cpu_start_s,
    }
    if tiers * kinds * periods <= 1000:
        schedule = model.solve(LIMIT_S).schedule
        assert schedule is not None
        figures["usd_per_month"] = schedule.total(problem)
    return {
        "tiers": tiers,
        "kinds": kinds,
        "periods": periods,
        "pyomo": figures,
        "linopy": run_peer("program.py", tiers, kinds, periods),
    }


def _never(*_: float) -> float:
    return 0.0


def main() -> None:
    sys.stdout.write(json.dumps(measure(), indent=1) + "\n")


if __name__ == "__main__":
    main()
