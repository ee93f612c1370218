"""The schedule beside a plan: machines by the hour, their purchase options, and the reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from core.errors import PlannerError
from core.tolerances import CENT
from optimizer.plan.explain.undecided import report_undecided
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.load import Load
from optimizer.plan.inputs.schedule import (
    DeclaredSchedule,
    Hours,
    fleet_of_sizes,
    hourly_problem,
)
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, in_ms
from optimizer.plan.solve.schedule import (
    ENERGY,
    NODES,
    USD,
    Bought,
    HourlyProblem,
    Measure,
    Schedule,
    committed,
    sizes_at,
)
from optimizer.plan.solve.schedule_search import FoundSchedule, cheapest_schedule

LIMIT_S = 60.0  # of a schedule
_FRONT_POINTS = 5  # between the ends of a front
_MEASURES = {"usd": USD, "nodes": NODES, "energy": ENERGY}


def schedule_of(
    case: Case, load: Load, stated: DeclaredSchedule | None, path: Path, deadline: Deadline
) -> dict[str, object] | None:
    """Return `schedule` of plan.json; None if the load or the case has no hours."""
    hours = hourly_problem(case, load, stated, path)
    if hours is None:
        return None
    declared = stated or DeclaredSchedule()
    search_deadline, measure = deadline.within(LIMIT_S), _MEASURES[declared.objective]
    head = {"objective": declared.objective, "hours": len(hours.shares)}
    try:
        cheapest = minimize(hours.problem, measure, search_deadline)
    except PlannerError:
        cheapest = FoundSchedule(None, None, None)
    if cheapest.schedule is None:
        reason = (
            _NONE
            if cheapest.proved
            else report_undecided("schedule was found", search_deadline.seconds)
        )
        no_schedule = {"usd_per_month": None, "proved": cheapest.proved, "gap": None}
        return {**head, **no_schedule, "reasons": [reason]}
    body = {**head, **_describe(case, hours, cheapest, path, load)}
    if declared.front:
        body["front"] = front(hours.problem, declared, search_deadline)
    return body


_NONE = "no schedule keeps all limits: the quotas, min_nodes or max_nodes leave too few machines"


def minimize(problem: HourlyProblem, measure: Measure, deadline: Deadline) -> FoundSchedule:
    """Return the cheapest of the schedules with the least `measure`.

    Raises: OutOfTimeError if the time ends before there are designs.
    """
    best = cheapest_schedule(problem, deadline, measure=measure)
    if measure == USD or best.value is None:
        return best
    cheapest = cheapest_schedule(problem, deadline, caps={measure: best.value * (1.0 + 1e-9)})
    return replace(best, schedule=cheapest.schedule or best.schedule)


def front(
    problem: HourlyProblem, declared: DeclaredSchedule, deadline: Deadline
) -> list[dict[str, float]]:
    """Return the least cost at each bound on the running machines.

    The bounds are on energy instead if watts are stated. They are both ends and points between
    them, as many as time allows.
    """
    measure = ENERGY if declared.watts_per_vcpu is not None else NODES
    points: list[dict[str, float]] = []
    try:
        smallest = cheapest_schedule(
            problem, deadline.within(deadline.left_s() / 3), measure=measure
        )
        cheapest = cheapest_schedule(problem, deadline.within(deadline.left_s() / 2))
        if smallest.schedule is None or smallest.value is None or cheapest.schedule is None:
            return []
        value_most = cheapest.schedule.total(problem, measure)
        for k in range(_FRONT_POINTS + 2):
            cap = smallest.value + (value_most - smallest.value) * k / (_FRONT_POINTS + 1)
            point_deadline = deadline.within(deadline.left_s() / (_FRONT_POINTS + 2 - k))
            candidate = cheapest_schedule(
                problem, point_deadline, caps={measure: cap * (1.0 + 1e-9)}
            )
            if candidate.schedule is not None:
                points.append(_point(problem, candidate, measure))
    except PlannerError:
        pass  # the points so far are returned
    pareto: list[dict[str, float]] = []
    for point in points:
        if not pareto or point["usd_per_month"] < pareto[-1]["usd_per_month"] - CENT:
            pareto.append(point)
    return pareto


def _point(problem: HourlyProblem, candidate: FoundSchedule, measure: Measure) -> dict[str, float]:
    assert candidate.schedule is not None
    key = "kwh_per_month" if measure == ENERGY else "machines"
    return {
        key: round(candidate.schedule.total(problem, measure), 3),
        "usd_per_month": round(candidate.schedule.total(problem), 2),
        "proved": candidate.proved,
    }


def _describe(
    case: Case, hours: Hours, result: FoundSchedule, path: Path, load: Load
) -> dict[str, object]:
    schedule, problem = result.schedule, hours.problem
    assert schedule is not None
    usd = schedule.total(problem)
    standing = cost(path) - _disk_and_traffic_usd(case, path)
    body: dict[str, object] = {
        "usd_per_month": round(usd, 2),
        "standing_usd_per_month": round(standing, 2),
        "saved_usd_per_month": round(standing - usd, 2),
        "machines": round(schedule.total(problem, NODES), 3),
        "proved": result.proved,
        "gap": result.gap,
        "designs": result.designs,
        "solves": result.solves,
        "cuts": result.cuts,
        "tiers": {
            tier.name: _describe_tier(hours, schedule, t) for t, tier in enumerate(problem.tiers)
        },
        "by_hour": list(_hour_rows(hours, schedule, case, load)),
        "predicted": _predict(case, hours, schedule, path),
        "reasons": [*_reasons(hours, schedule), *_unscheduled_costs(case, path)],
    }
    if problem.watts_per_vcpu:
        body["kwh_per_month"] = round(schedule.total(problem, ENERGY), 1)
    return body


def _unscheduled_costs(case: Case, path: Path) -> Iterator[str]:
    if (usd := _disk_and_traffic_usd(case, path)) > CENT:
        yield f"disks and traffic between zones, {usd:.2f} USD a month, are in neither figure"


def _disk_and_traffic_usd(case: Case, path: Path) -> float:
    """Return the USD a month of the standing fleet for disks and traffic between zones."""
    tiers = zip(case.tiers, path, strict=True)
    return sum(sum(demand.usd_beside_of(option)) for demand, option in tiers)


def purchase_group(purchase: Bought) -> str:
    """Return a group of purchase options: committed, interruptible, and others."""
    if committed(purchase.machine):
        return "reserved"
    return "spot" if purchase.machine.interruptions_per_year else "on_demand"


def _describe_tier(hours: Hours, schedule: Schedule, number: int) -> dict[str, object]:
    design = schedule.designs[number]
    return {
        "extra": design.extra,
        "availability": 1.0 - design.unavailability,
        "needed": [design.needed[p] for p in hours.period_of],
        "machines": [
            {
                "instance_type": purchase.machine.type_name,
                "purchase": purchase.machine.purchase,
                "bought": purchase.standing,
                "most": max(purchase.running),
                "by_hour": [purchase.running[p] for p in hours.period_of],
                "usd_per_month": round(Schedule((), ((purchase,),)).total(hours.problem), 2),
            }
            for purchase in schedule.bought[number]
        ],
    }


def _hour_rows(
    hours: Hours, schedule: Schedule, case: Case, load: Load
) -> Iterator[dict[str, object]]:
    """Yield the machines of all tiers in each hour, by purchase group."""
    pages_per_s = (
        case.tiers[0].request_per_s / load.highest
    )  # on average over the hours, as planned for
    purchases = [purchase for tier in schedule.bought for purchase in tier]
    standing = sum(purchase.standing for purchase in purchases)
    for hour, (period, share) in enumerate(zip(hours.period_of, hours.shares, strict=True)):
        running = {"reserved": 0, "on_demand": 0, "spot": 0}
        for purchase in purchases:
            running[purchase_group(purchase)] += purchase.running[period]
        yield {
            "hour": hour,
            "per_s": round(pages_per_s * share, 6),
            "running": sum(running.values()),
            "bought": standing,
            **running,
        }


def _predict(case: Case, hours: Hours, schedule: Schedule, path: Path) -> dict[str, object]:
    """Return a lower bound of availability over the hours, and the slowest hour's percentiles."""
    problem = hours.problem
    body: dict[str, object] = {
        "availability": 1.0 - math.fsum(design.unavailability for design in schedule.designs)
    }
    if not case.slo.latency_ms:
        return body
    slowest: dict[int, float] = {}
    for p, period in enumerate(problem.periods):
        latency = case.with_load(period.load).latency
        fleet = fleet_of_sizes(path, sizes_at(schedule.designs, p))
        for q, value in latency.middle(latency(fleet)).items():
            slowest[q] = max(slowest.get(q, 0.0), value)
    return body | in_ms(slowest)


def _reasons(hours: Hours, schedule: Schedule) -> Iterator[str]:
    """Yield the reasons for the purchases, and their bounds."""
    problem = hours.problem
    machines = [machine for tier in problem.tiers for machine in tier.machines]
    hourly = {
        machine.type_name: machine.usd_per_hour
        for machine in machines
        if machine.purchase == "on-demand"
    }
    for way in sorted({machine.purchase for machine in machines if committed(machine)}):
        shares = {
            round(machine.usd_per_hour / hourly[machine.type_name], 3)
            for machine in machines
            if machine.purchase == way and machine.type_name in hourly
        }
        if len(shares) == 1:
            share = shares.pop()
            yield (
                f"{way}: cheaper than on demand for a machine that runs more than {share:.0%} of "
                f"the hours ({share * problem.hours:.1f} of {problem.hours})"
            )
    for tier, design in zip(problem.tiers, schedule.designs, strict=True):
        if design.extra:
            yield (
                f"{tier.name}: {design.extra} more than the load needs, in every hour, since "
                "machines fail"
            )
        if min(design.needed) == tier.least and tier.least > 1:
            yield (
                f"{tier.name}: never fewer than {tier.least} beside the extra ones (replicas, or "
                "their collision)"
            )
        if min(design.needed) + design.extra < tier.fewest:
            yield f"{tier.name}: never fewer than {tier.fewest} (min_nodes)"
    for q, quota in enumerate(problem.quotas):
        full = [
            hour
            for hour, p in enumerate(hours.period_of)
            if schedule.quota_used(problem, quota, p) >= quota.most
        ]
        if full:
            yield f"quota {q + 1} ({', '.join(sorted(quota.types))}): used up in {len(full)} hours"
    if not problem.starting_h:
        yield "machines are taken to serve at once: [schedule] start_s says otherwise"
    waits = schedule.total(problem) - schedule.total(replace(problem, starting_h=0.0))
    if waits > CENT:
        yield f"machines that start and do not serve yet cost {waits:.2f} USD a month"
