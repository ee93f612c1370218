"""The schedule that is found, against all schedules of small tiers, and what a plan says of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.plan.explain.schedule import schedule_of
from optimizer.plan.planner import make_plan
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.schedule import (
    ENERGY,
    NODES,
    USD,
    Design,
    HourlyProblem,
    HourlyTier,
    Measure,
    Period,
    Quota,
    Sizes,
    is_exact,
    least_cost,
)
from optimizer.plan.solve.schedule_model import ScheduleModel
from optimizer.plan.solve.schedule_search import (
    cheapest_schedule,
    pools_of,
    violations,
)
from optimizer.tests.one_tier import asked, planned
from optimizer.tests.schedules_by_hand import least_of_all, lost, machine, small_schedules
from random_tests import examples

DAY = [0.6, 0.5, 0.4, 0.4, 0.4, 0.5, 0.7, 0.9, 1.1, 1.3, 1.4, 1.4]
DAY += [1.4, 1.3, 1.3, 1.2, 1.2, 1.3, 1.4, 1.4, 1.3, 1.1, 0.9, 0.7]
RESERVED = {"name": "reserved-1y", "discount": 0.37, "committed": True}
SPOT = {"name": "spot", "discount": 0.65, "interruptions_per_year": 300.0}
MODERATE = {"max_nodes": 40}


@examples(20)
@given(problem=small_schedules(), measure=st.sampled_from([USD, USD, NODES, ENERGY]))
def test_no_schedule_is_less_than_the_one_that_is_found(
    problem: HourlyProblem, measure: Measure
) -> None:
    result = cheapest_schedule(problem, Deadline(math.inf), measure=measure)
    best = least_of_all(problem, measure)
    assert result.proved
    if best is None:
        assert result.schedule is None
        return
    assert result.value == pytest.approx(best, abs=0.011)
    assert violations(problem, result.schedule) == []


def _tier(load: float = 95.0, least: int = 1) -> HourlyTier:
    """Machines of one size in three ways to pay."""
    kinds = (
        machine("m1", 1.0, 10.0),
        machine("m1", 1.0, 6.0, committed=True, purchase="reserved"),
        machine("m1", 1.0, 4.0, interruptions=4.0, purchase="spot"),
    )
    return HourlyTier("t", kinds, (10.0,) * 3, load, least, 200, lost)


def _day(tier: HourlyTier, **changes: Any) -> HourlyProblem:
    return HourlyProblem((tier,), tuple(Period(share / 1.4, 1) for share in DAY), **changes)


def test_a_design_alone_costs_by_screening_curves_what_the_program_finds() -> None:
    untied = _day(_tier(), unavailability_max=0.02)
    tied = replace(untied, quotas=(Quota(frozenset({"other"}), 1.0, vcpus=False),))
    pool = pools_of(untied, USD, Deadline(math.inf))[0].designs
    assert len(pool) > 1
    for design in pool:
        assert is_exact(untied, design)
        assert not is_exact(tied, design)
        result = ScheduleModel(tied, [[design]]).solve(60.0)
        assert result.schedule.total(tied) == pytest.approx(least_cost(untied, design), abs=0.011)
        assert violations(tied, result.schedule) == []


def test_a_committed_machine_that_stands_still_for_an_hour_has_no_start() -> None:
    reserved = machine("m1", 1.0, 4.8, committed=True, purchase="reserved")
    tier = HourlyTier("t", (machine("m1", 1.0, 8.0), reserved), (10.0, 10.0), 11.0, 1, 4, lost)
    problem = HourlyProblem((tier,), (Period(1.0, 1), Period(0.2, 1)), starting_h=0.25)
    result = cheapest_schedule(problem, Deadline(math.inf), measure=NODES)
    assert result.value == pytest.approx(1.5)


def test_machines_that_start_earlier_and_run_longer_cost_more() -> None:
    hourly = HourlyTier("t", (machine("m1", 1.0, 10.0),), (10.0,), 95.0, 1, 200, lost)
    shares = [0.2] * 6 + [1.0] * 2 + [0.2] * 4 + [1.0] * 2 + [0.2] * 10
    plain = HourlyProblem((hourly,), tuple(Period(share, 1) for share in shares))
    later = replace(plain, starting_h=0.5)
    longer = replace(later, run_h_min=4)
    results = [cheapest_schedule(problem, Deadline(math.inf)) for problem in (plain, later, longer)]
    # 2 machines always, 8 more in 4 hours; 16 starts of half an hour
    by_hand = [10.0 * (48 + 32) / 24, 10.0 * (48 + 32 + 8) / 24]
    costs = [result.value for result in results if result.value is not None]
    assert costs[:2] == pytest.approx(by_hand)
    assert costs[1] < costs[2] < 10.0 * (48 + 64 + 8) / 24  # which is all runs, each 4 hours long
    assert violations(longer, results[2].schedule) == []
    assert violations(longer, results[0].schedule) != []


def test_a_schedule_with_a_machine_less_breaks_a_limit() -> None:
    problem = _day(_tier())
    schedule = cheapest_schedule(problem, Deadline(math.inf)).schedule
    (bought,) = schedule.bought
    smaller = replace(bought[0], running=(max(0, bought[0].running[0] - 1), *bought[0].running[1:]))
    assert violations(problem, replace(schedule, bought=((smaller, *bought[1:]),))) != []
    unpaid = replace(bought[0], standing=0)
    broken = violations(problem, replace(schedule, bought=((unpaid, *bought[1:]),)))
    assert broken != [] or bought[0].standing == 0


def _slow(limit: float, problem: HourlyProblem) -> HourlyProblem:
    """Return the problem with a made-up latency: less with servers and vCPUs, more with load."""

    def slow(period: int, sizes: Sizes) -> bool:
        load = problem.periods[period].load
        value = sum(1.0 / v + 3.0 * load / (n * v) + 0.5 / n for n, v in sizes)
        return value > limit

    return replace(problem, slow=slow)


@examples(8)
@given(
    limit=st.floats(1.0, 3.5),
    loads=st.tuples(st.integers(5, 40), st.integers(5, 40)),
    most=st.sampled_from([None, 0.01]),
)
def test_cuts_leave_the_cheapest_designs_that_are_fast_enough(
    limit: float, loads: tuple[int, int], most: float | None
) -> None:
    kinds = (machine("m1", 1.0, 10.0), machine("m1", 1.0, 6.0, committed=True, purchase="reserved"),
             machine("m2", 2.0, 21.0))  # fmt: skip
    tiers = tuple(
        HourlyTier(f"t{n}", kinds, (10.0, 10.0, 20.0), float(load), 1, 6, lost)
        for n, load in enumerate(loads)
    )
    periods = (Period(1.0, 5), Period(0.5, 7), Period(0.2, 12))
    problem = _slow(limit, HourlyProblem(tiers, periods, unavailability_max=most))
    pools = pools_of(problem, USD, Deadline(math.inf))
    costs = [{id(d): least_cost(problem, d) for d in pool.designs} for pool in pools]

    def cost(designs: tuple[Design, ...]) -> float:
        return math.fsum(
            cost_of[id(design)] for cost_of, design in zip(costs, designs, strict=True)
        )

    cheapest_first = sorted(itertools.product(*(pool.designs for pool in pools)), key=cost)
    costs_kept = (
        cost(designs)
        for designs in cheapest_first
        if most is None or math.fsum(design.unavailability for design in designs) <= most
        if not any(_is_slow(problem, p, designs) for p in range(len(periods)))
    )
    best = next(costs_kept, None)
    result = cheapest_schedule(problem, Deadline(math.inf))
    assert result.proved
    if best is None:
        assert result.schedule is None
    else:
        assert result.value == pytest.approx(best, abs=0.011)
        assert violations(problem, result.schedule) == []


def test_a_quiet_hour_may_need_more_machines_than_its_load() -> None:
    periods = (Period(1.0, 12), Period(0.2, 12))
    problem = HourlyProblem((_tier(),), periods, slow=lambda _, sizes: sizes[0][0] < 3)
    result = cheapest_schedule(problem, Deadline(math.inf))
    assert result.proved
    assert result.cuts > 0
    (design,) = result.schedule.designs
    assert design.needed == (10, 3)


def _is_slow(problem: HourlyProblem, period: int, designs: tuple[Design, ...]) -> bool:
    return problem.slow(period, tuple((design.needed[period], design.vcpus) for design in designs))


def test_a_search_without_time_says_how_far_it_came() -> None:
    ticks = itertools.count()
    late = Deadline(2.5, lambda: float(next(ticks)))
    result = cheapest_schedule(_day(_tier(), starting_h=0.5), late)
    assert not result.proved
    assert result.solves == 0
    assert 0.0 < result.gap < 1.0
    assert violations(_day(_tier(), starting_h=0.5), result.schedule) == []


def test_a_schedule_that_no_time_is_left_for_is_not_decided() -> None:
    question = asked({"availability": 0.999}, load={"week": DAY * 7})
    outcome = make_plan(question)
    ticks = itertools.count()
    deadline = Deadline(8.0, lambda: 4.0 * next(ticks))
    body = schedule_of(outcome.case, question.load, None, outcome.solution.path, deadline)
    assert (body["usd_per_month"], body["proved"], body["gap"]) == (None, False, None)
    assert str(body["reasons"]).count("not decided within 4 s") == 1


def _planned(**values: Any) -> Any:
    defaults = {"prices": {"purchase": [RESERVED]}, "load": {"day": DAY}, "limits": MODERATE}
    defaults |= {"arrival_per_s": 1000.0}
    tier = {"processing_s": 0.02, "memory_mb": 1024, "instance_types": ["c5.large"]}
    tier |= values.pop("tier", {})
    return planned({"availability": 0.999}, tier=tier, **{**defaults, **values})


def test_a_reserved_base_and_machines_by_the_hour_cost_what_was_found_by_hand() -> None:
    plan = _planned()
    assert plan.usd_per_month == pytest.approx(781.83, abs=0.01)
    body = plan.schedule
    assert body["usd_per_month"] == pytest.approx(717.61, abs=0.01)
    assert body["proved"]
    assert body["saved_usd_per_month"] == pytest.approx(64.22, abs=0.01)
    by_way = {row["purchase"]: row for row in body["tiers"]["web"]["machines"]}
    assert by_way["reserved-1y"]["bought"] == 13
    assert by_way["on-demand"]["most"] == 7
    needed = [math.ceil(1000.0 * share * 0.02 / 2 / 0.7 - 1e-9) for share in DAY]
    assert [hour["running"] for hour in body["by_hour"]] == needed


def test_a_week_of_equal_days_costs_what_a_day_does() -> None:
    week = _planned(load={"week": DAY * 7}).schedule
    day = _planned().schedule
    assert len(week["by_hour"]) == 168
    assert week["usd_per_month"] == pytest.approx(day["usd_per_month"])


def test_spot_machines_take_the_peak_where_availability_allows() -> None:
    body = _planned(prices={"purchase": [RESERVED, SPOT]}).schedule
    assert body["usd_per_month"] < 717.61
    assert any(hour["spot"] for hour in body["by_hour"])
    assert body["predicted"]["availability"] >= 0.999


def test_a_quota_bounds_what_runs_in_any_hour() -> None:
    quota = {"instance_types": ["c5.large"], "machines": 12}
    types = {"instance_types": ["c5.large", "m5.large"]}
    body = _planned(tier=types, schedule={"quotas": [quota]}).schedule
    large = [row for row in body["tiers"]["web"]["machines"] if row["instance_type"] == "c5.large"]
    hours = zip(*(row["by_hour"] for row in large), strict=True)
    assert max(sum(hour) for hour in hours) <= 12
    assert any("used up" in text for text in body["reasons"])
    plan = _planned(schedule={"quotas": [quota]})
    assert plan.schedule["usd_per_month"] is None
    assert plan.schedule["proved"]
    assert any("quota 1 (c5.large) allows 12 machines" in text for text in plan.warnings)


def test_a_tier_has_its_least_number_of_machines_in_the_plan_and_in_each_hour() -> None:
    plan = _planned(tier={"min_nodes": 22}, arrival_per_s=100.0)
    assert plan.tiers["web"].nodes >= 22
    assert min(hour["running"] for hour in plan.schedule["by_hour"]) >= 22


def test_hours_of_one_load_cost_no_more_than_the_fleet_that_stands() -> None:
    crashes = {"crash_per_year": 2000.0}
    flat = {"arrival_per_s": 100.0, "load": {"day": [1.0] * 24}, "rates": crashes}
    body = _planned(tier={"min_nodes": 12}, **flat).schedule
    assert body["tiers"]["web"]["extra"] > 0
    assert body["usd_per_month"] == pytest.approx(body["standing_usd_per_month"], abs=0.01)


def test_a_front_has_fewer_machines_for_more_money() -> None:
    types = {"instance_types": ["c5.large", "c5.4xlarge"]}
    body = _planned(tier=types, schedule={"front": True}).schedule
    points = body["front"]
    assert len(points) > 1
    assert [p["machines"] for p in points] == sorted(p["machines"] for p in points)
    costs = [p["usd_per_month"] for p in points]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(body["usd_per_month"], abs=0.02)
    nodes = _planned(tier=types, schedule={"objective": "nodes"}).schedule
    assert nodes["machines"] == pytest.approx(points[0]["machines"], abs=1e-3)
    assert nodes["usd_per_month"] == pytest.approx(points[0]["usd_per_month"], abs=0.02)


def test_every_hour_keeps_the_latency_limit() -> None:
    slo = {"p95_ms": 90.0}
    schedule = planned(slo, load={"day": DAY}, limits=MODERATE, arrival_per_s=100.0).schedule
    assert schedule["predicted"]["p95_ms"] <= 90.0
    assert schedule["usd_per_month"] <= schedule["standing_usd_per_month"] + 0.01
    assert len({hour["running"] for hour in schedule["by_hour"]}) > 1


def test_no_schedule_is_made_without_hours_or_where_machines_are_owned() -> None:
    assert _planned(load={"peak": 1.4}).schedule is None
    owned = {"tier": {"instance_types": ["slice-1"]}, "scheme": "on-prem"}
    assert planned({"availability": 0.9}, load={"day": DAY}, **owned).schedule is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"schedule": {}, "load": {"peak": 1.4}}, "schedule"),
        ({"schedule": {"objective": "energy"}}, "watts_per_vcpu"),
        ({"schedule": {"start_s": -1.0}}, "start_s"),
        ({"schedule": {"quotas": [{"instance_types": ["c5.large"]}]}}, "vcpus or machines"),
        ({"schedule": {"quotas": [{"instance_types": ["c5.huge"], "machines": 3}]}}, "c5.huge"),
        ({"schedule": {}, "scheme": "on-prem"}, "rented"),
        ({"load": {"day": DAY, "peak": 1.4}}, "peak, day"),
        ({"load": {"week": DAY}}, "168"),
        ({"tier": {"min_nodes": 41}}, "max_nodes"),
    ],
)
def test_hours_that_cannot_be_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        _planned(**values)


def test_tfvars_has_the_standing_fleet_as_variables_and_the_hours_as_remarks() -> None:
    plan = _planned()
    lines = plan.to_tfvars().splitlines()
    total = [0] * 24
    for line in lines:
        if not line.startswith("# web ") or "@" not in line:
            continue
        if line.endswith("in all hours"):
            added = [int(line.split(": ")[1].split()[0])] * 24
        else:
            pairs = [part.split() for part in line.split(": ")[1].split(", ")]
            added = [int([n for h, n in pairs if int(h) <= hour][-1]) for hour in range(24)]
        total = [a + b for a, b in zip(total, added, strict=True)]
    running = [hour["running"] for hour in plan.schedule["by_hour"]]
    assert all(a >= b for a, b in zip(total, running, strict=True))  # reserved ones may be idle
    assert max(total) == max(running)
    (variable,) = [line for line in lines if line.startswith("  web = ") and "role" in line]
    assert f"nodes = {plan.tiers['web'].nodes}" in variable
    flat = _planned(load={"peak": 1.4}).to_tfvars()
    assert "hour" not in flat
