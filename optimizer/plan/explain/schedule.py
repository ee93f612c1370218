"""The schedule beside a plan: machines by the hour, their purchase options, and the reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from core.errors import PlannerError
from core.tolerances import CENT
from optimizer.plan.inputs.schedule import (
    DeclaredSchedule,
    Hours,
    fleet_of_sizes,
    hourly_problem,
)
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import in_ms
from optimizer.plan.solve.schedule import (
    ENERGY,
    NODES,
    USD,
    Bought,
    HourlyProblem,
    Measure,
    Schedule,
    committed,
)
from optimizer.plan.solve.schedule_search import FoundSchedule, cheapest_schedule

if TYPE_CHECKING:
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.load import Load
    from optimizer.plan.solve.problem import Path

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
    asked = stated or DeclaredSchedule()
    own, measure = deadline.within(LIMIT_S), _MEASURES[asked.objective]
    head = {"objective": asked.objective, "hours": len(hours.shares)}
    try:
        found = least(hours.problem, measure, own)
    except PlannerError:
        return {**head, "usd_per_month": None, "proved": False, "gap": None, "reasons": [_CUT]}
    if found.schedule is None:
        why = _NONE if found.proved else _CUT
        return {
            **head,
            "usd_per_month": None,
            "proved": found.proved,
            "gap": None,
            "reasons": [why],
        }
    body = {**head, **_body(case, hours, found, path, load)}
    if asked.front:
        body["front"] = front(hours.problem, asked, own)
    return body


_CUT = "not decided in time: no schedule was found, and none was proved not to be there"
_NONE = "no schedule keeps all limits: the quotas, min_nodes or max_nodes leave too few machines"


def least(problem: HourlyProblem, measure: Measure, deadline: Deadline) -> FoundSchedule:
    """Return the cheapest of the schedules with the least `measure`.

    Raises: OutOfTimeError if the time ends before there are designs.
    """
    found = cheapest_schedule(
        problem, measure=measure, limit_s=deadline.left_s(), clock=deadline.clock
    )
    if measure == USD or found.value is None:
        return found
    cheapest = cheapest_schedule(
        problem,
        caps={measure: found.value * (1.0 + 1e-9)},
        limit_s=deadline.left_s(),
        clock=deadline.clock,
    )
    if cheapest.schedule is None:
        return found
    return replace(found, schedule=cheapest.schedule)


def front(
    problem: HourlyProblem, asked: DeclaredSchedule, deadline: Deadline
) -> list[dict[str, float]]:
    """Return the least cost of each bound on the machines that run, or on their energy where its
    watts are stated: both ends, and points between them; those that time allows.
    """
    other = ENERGY if asked.watts_per_vcpu is not None else NODES
    points: list[dict[str, float]] = []
    try:
        dear = cheapest_schedule(
            problem, measure=other, limit_s=deadline.left_s() / 3, clock=deadline.clock
        )
        cheap = cheapest_schedule(problem, limit_s=deadline.left_s() / 2, clock=deadline.clock)
        if dear.schedule is None or dear.value is None or cheap.schedule is None:
            return []
        most = cheap.schedule.total(problem, other)
        for k in range(_FRONT_POINTS + 2):
            cap = dear.value + (most - dear.value) * k / (_FRONT_POINTS + 1)
            one = cheapest_schedule(
                problem,
                caps={other: cap * (1.0 + 1e-9)},
                limit_s=deadline.left_s() / (_FRONT_POINTS + 2 - k),
                clock=deadline.clock,
            )
            if one.schedule is not None:
                points.append(_point(problem, one, other))
    except PlannerError:
        pass  # the points so far are told
    kept: list[dict[str, float]] = []
    for point in points:
        if not kept or point["usd_per_month"] < kept[-1]["usd_per_month"] - CENT:
            kept.append(point)
    return kept


def _point(problem: HourlyProblem, found: FoundSchedule, other: Measure) -> dict[str, float]:
    assert found.schedule is not None
    key = "kwh_per_month" if other == ENERGY else "machines"
    return {
        key: round(found.schedule.total(problem, other), 3),
        "usd_per_month": round(found.schedule.total(problem), 2),
        "proved": found.proved,
    }


def _body(
    case: Case, hours: Hours, found: FoundSchedule, path: Path, load: Load
) -> dict[str, object]:
    schedule, problem = found.schedule, hours.problem
    assert schedule is not None
    usd = schedule.total(problem)
    standing = cost(path) - _other_usd(case, path)
    body: dict[str, object] = {
        "usd_per_month": round(usd, 2),
        "standing_usd_per_month": round(standing, 2),
        "saved_usd_per_month": round(standing - usd, 2),
        "machines": round(schedule.total(problem, NODES), 3),
        "proved": found.proved,
        "gap": found.gap,
        "designs": found.designs,
        "solves": found.solves,
        "cuts": found.cuts,
        "tiers": {tier.name: _tier(hours, schedule, t) for t, tier in enumerate(problem.tiers)},
        "by_hour": list(_by_hour(hours, schedule, case, load)),
        "predicted": _predicted(case, hours, schedule, path),
        "reasons": [*_reasons(hours, schedule), *_unscheduled(case, path)],
    }
    if problem.watts_per_vcpu:
        body["kwh_per_month"] = round(schedule.total(problem, ENERGY), 1)
    return body


def _unscheduled(case: Case, path: Path) -> Iterator[str]:
    if (usd := _other_usd(case, path)) > CENT:
        yield f"disks and traffic between zones, {usd:.2f} USD a month, are in neither figure"


def _other_usd(case: Case, path: Path) -> float:
    """USD a month of the standing fleet for its disks and for what crosses zones."""
    found = 0.0
    for demand, option in zip(case.tiers, path, strict=True):
        found += sum(demand.usd_beside_of(option))
    return found


def way_of(one: Bought) -> str:
    """Return a group of purchase options: committed, interruptible, and others."""
    if committed(one.machine):
        return "reserved"
    return "spot" if one.machine.interruptions_per_year else "on_demand"


def _tier(hours: Hours, schedule: Schedule, number: int) -> dict[str, object]:
    design = schedule.designs[number]
    return {
        "extra": design.extra,
        "availability": 1.0 - design.unavailability,
        "needed": [design.needed[p] for p in hours.period_of],
        "machines": [
            {
                "instance_type": one.machine.type_name,
                "purchase": one.machine.purchase,
                "bought": one.standing,
                "most": max(one.running),
                "by_hour": [one.running[p] for p in hours.period_of],
                "usd_per_month": round(_usd(hours.problem, one), 2),
            }
            for one in schedule.bought[number]
        ],
    }


def _usd(problem: HourlyProblem, one: Bought) -> float:
    return Schedule((), ((one,),)).total(problem)


def _by_hour(
    hours: Hours, schedule: Schedule, case: Case, load: Load
) -> Iterator[dict[str, object]]:
    """Machines in each hour, all tiers together, by the way they are paid for."""
    pages = case.tiers[0].request_per_s / load.highest  # on average over the hours, as planned for
    bought = [one for tier in schedule.bought for one in tier]
    standing = sum(one.standing for one in bought)
    for hour, (p, share) in enumerate(zip(hours.period_of, hours.shares, strict=True)):
        running = {"reserved": 0, "on_demand": 0, "spot": 0}
        for one in bought:
            running[way_of(one)] += one.running[p]
        yield {
            "hour": hour,
            "per_s": round(pages * share, 6),
            "running": sum(running.values()),
            "bought": standing,
            **running,
        }


def _predicted(case: Case, hours: Hours, schedule: Schedule, path: Path) -> dict[str, object]:
    """Availability over the hours, a lower bound; percentiles of the slowest hour."""
    problem = hours.problem
    body: dict[str, object] = {
        "availability": 1.0 - math.fsum(one.unavailability for one in schedule.designs)
    }
    if not case.slo.latency_ms:
        return body
    slowest: dict[int, float] = {}
    for p, period in enumerate(problem.periods):
        latency = case.with_load(period.load).latency
        fleet = fleet_of_sizes(path, schedule.sizes(p))
        for q, value in latency.middle(latency(fleet)).items():
            slowest[q] = max(slowest.get(q, 0.0), value)
    return body | in_ms(slowest)


def _reasons(hours: Hours, schedule: Schedule) -> Iterator[str]:
    """Yield the reasons for the purchases, and their bounds."""
    problem = hours.problem
    machines = [one for tier in problem.tiers for one in tier.machines]
    hourly = {one.type_name: one.usd_per_hour for one in machines if one.purchase == "on-demand"}
    for way in sorted({one.purchase for one in machines if committed(one)}):
        shares = {
            round(one.usd_per_hour / hourly[one.type_name], 3)
            for one in machines
            if one.purchase == way and one.type_name in hourly
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
    waits = math.fsum(
        _usd(problem, one) - _usd(replace(problem, starting_h=0.0), one)
        for tier in schedule.bought
        for one in tier
    )
    if waits > CENT:
        yield f"machines that start and do not serve yet cost {waits:.2f} USD a month"
