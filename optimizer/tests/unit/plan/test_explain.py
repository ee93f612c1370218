"""Binding limits, prices of steps, ways out, sensitivities: by enumeration."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given

from core.errors import InputError, PlannerError
from optimizer.commands.plan import EXAMPLE
from optimizer.plan.explain.curve import Axis, Budget
from optimizer.plan.explain.marginal import CUT, marginal_prices
from optimizer.plan.explain.reasons import ExplainOptions, explain, explain_infeasible, find_binding
from optimizer.plan.explain.relaxation import relax_together, relaxations
from optimizer.plan.explain.sensitivity import sensitivity
from optimizer.plan.inputs.overrides import Overrides, request_from_file
from optimizer.plan.solve.deadline import Check, Deadline, unbounded
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Degraded
from optimizer.plan.solve.problem import Problem
from optimizer.tests.small_problems import all_plans, latency, option, small_problems, true_front
from random_tests import examples

LIMITS = ("availability", "p95_ms", "p99_ms", "utilisation", "collision")
HAIR = 1e-6


def _tight(problem: Problem) -> Problem:
    """Return the problem with SLOs slightly tighter than the best plans reach."""
    unlimited = replace(problem, unavailability_max=None, latency_ms_max={})
    plans = [path for _, path in all_plans(unlimited)]
    assume(plans)
    least = {
        a: min(Axis(a).reached(unlimited, p) for p in plans) for a in ("availability", "p95_ms")
    }
    return replace(
        problem,
        unavailability_max=least["availability"] * 0.9,
        latency_ms_max={95: least["p95_ms"] * 1.1},
    )


@examples(12)
@given(small_problems())
def test_a_relaxation_is_sufficient_and_a_hair_tighter_is_not(problem: Problem) -> None:
    """Each limit whose relaxation alone is enough is listed."""
    tight = _tight(problem)
    assume(not all_plans(tight))
    by_limit = {relaxation.limit: relaxation for relaxation in relaxations(tight, Budget(1000))}
    for axis in map(Axis, LIMITS):
        if axis.limit(tight) is None:
            continue
        plans = all_plans(axis.impose(tight, math.inf))
        assert (axis.key in by_limit) == bool(plans)
        if not plans:
            continue
        relaxation = by_limit[axis.key]
        assert relaxation.least
        x = axis.from_stated(relaxation.value)
        assert x == pytest.approx(min(axis.reached(tight, p) for _, p in plans), rel=1e-7)
        enough = all_plans(axis.impose(tight, x))
        assert math.fsum(o.usd_per_month for o in relaxation.path) == pytest.approx(enough[0][0])
        assert solve(axis.impose(tight, x)).path is not None
        assert solve(axis.impose(tight, x * (1 - HAIR))).path is None


@examples(12)
@given(small_problems())
def test_what_is_loosened_together_suffices_together(problem: Problem) -> None:
    tight = _tight(problem)
    tight = replace(tight, latency_ms_max={95: tight.latency_ms_max[95] * 0.5})
    assume(not all_plans(tight))
    steps = relax_together(tight, Budget(1000))
    loosened = tight
    for step in steps:
        axis = Axis(step.limit)
        loosened = axis.impose(loosened, axis.from_stated(step.value))
    assert bool(steps) == bool(all_plans(loosened))
    if not steps:
        unlimited = tight
        for key in LIMITS:
            unlimited = Axis(key).impose(unlimited, math.inf)
        assert not all_plans(unlimited)


@examples(12)
@given(small_problems())
def test_what_binds_is_what_enumeration_saves_without_it(problem: Problem) -> None:
    solution = solve(problem)
    assume(solution.usd_per_month is not None)
    expected = set()
    for family in ("availability", "utilisation", "collision", "latency"):
        saved = solution.usd_per_month - all_plans(problem.without(family))[0][0]
        if saved > 0.005:
            expected.add(f"{family}: without it {saved:.2f} USD a month less")
    texts = find_binding(problem, solution)
    assert set(texts) == (expected or set(texts[:1]))
    assert expected or texts[0].startswith("none of the SLOs")


@examples(12)
@given(small_problems())
def test_marginal_prices_are_the_steps_of_enumeration(problem: Problem) -> None:
    solution = solve(problem)
    assume(solution.usd_per_month is not None)
    prices = marginal_prices(problem, solution, lambda _: Budget(500))
    json.dumps(prices, allow_nan=False)
    assert set(prices) == {"availability", "p95_ms", "p99_ms"}
    for key, price in prices.items():
        axis, points = Axis(key), true_front(problem, Axis(key))
        dearer = [usd for _, usd in points if usd > solution.usd_per_month + 0.01]
        cheaper = [(x, usd) for x, usd in points if usd < solution.usd_per_month - 0.01]
        assert not any(why.startswith(CUT) for why in price["why"].values())
        assert (price["tighter"] is None) == (not dearer)
        assert (price["looser"] is None) == (not cheaper)
        if dearer:
            usd_more = dearer[0] - solution.usd_per_month
            assert price["tighter"]["usd_more"] == pytest.approx(usd_more, abs=0.006)
        if cheaper:
            assert price["looser"]["limit"] == pytest.approx(axis.stated(cheaper[-1][0]), rel=1e-7)
            usd_less = cheaper[-1][1] - solution.usd_per_month
            assert price["looser"]["usd_more"] == pytest.approx(usd_less, abs=0.006)
    nine = [usd for x, usd in true_front(problem, Axis("availability"))
            if x <= problem.unavailability_max / 10 + 1e-15]  # fmt: skip
    next_nine = prices["availability"]["next_nine"]
    assert next_nine["usd_more"] == (
        pytest.approx(nine[0] - solution.usd_per_month, abs=0.006) if nine else None
    )


def test_prices_whose_search_is_cut_say_so() -> None:
    tiers = tuple(
        tuple(option(t, 1, 1, n, 2, usd=10.0 * n, u=10.0**-n) for n in range(1, 6))
        for t in range(2)
    )
    problem = Problem(tiers, latency, unavailability_max=1 - 0.995)
    price = marginal_prices(problem, solve(problem), lambda _: Budget(1))["availability"]
    assert price["tighter"] is None
    assert price["why"]["tighter"] == f"{CUT} after 1 solves"  # not known is not: not there


def test_a_plan_that_is_not_proved_the_cheapest_has_no_prices() -> None:
    source = _Ladder()
    problem = source.problem()
    solution = solve(problem)
    options, deadline = (
        ExplainOptions(marginal=True, pareto=True, sensitivity=True),
        Deadline(1e9),
    )
    assert set(explain(problem, solution, source, options, deadline)) == {
        "marginal", "pareto", "sensitivity",
    }  # fmt: skip
    assert explain(problem, replace(solution, gap=0.1), source, options, deadline) == {}


def test_a_binding_limit_is_named_with_what_it_costs() -> None:
    small, large = option(0, 1, 1, 1, 1, usd=10.0), option(0, 1, 1, 4, 4, usd=35.0)
    problem = Problem(((small, large),), latency, latency_ms_max={95: 100.0}, utilisation_max=0.9)
    solution = solve(problem)
    assert solution.path == (large,)
    assert find_binding(problem, solution) == ["latency: without it 25.00 USD a month less"]


def test_an_infeasible_slo_says_how_short_the_best_fleet_is() -> None:
    options = (option(0, 1, 1, 4, 4, u=1e-4),)
    problem = Problem(
        (options,), latency, unavailability_max=1 - 0.99999, latency_ms_max={95: 100.0}
    )
    texts, _ = explain_infeasible(problem)
    phrase = "0.9999 is the most with the other limits kept, for 160.00 USD a month"
    assert texts == [f"availability: 0.99999 asked, {phrase}; short by 9e-05"]
    best = latency((options[0],))[95]
    slow = Problem((options,), latency, latency_ms_max={95: best - 10.0})
    (text,), _ = explain_infeasible(slow)
    assert f"{math.ceil(best * 100) / 100:.2f} ms is the least with the other limits kept" in text
    assert text.endswith("short by 10.0 ms")


def test_a_condition_without_a_number_can_only_be_dropped() -> None:
    options = (option(0, 1, 1, 1, 8, u=1e-4),)
    problem = Problem((options,), latency, unavailability_max=1e-3, degraded=Degraded(nodes_down=1))
    texts, body = explain_infeasible(problem)
    assert texts == ["degraded: dropping it makes a plan feasible, for 80.00 USD a month"]
    assert body["alone"][0]["value"] is None


@dataclass(frozen=True)
class _Ladder:
    """Nodes of one type; each carries 10 requests a second and adds to what is available."""

    rate_per_s: float = 25.0
    max_nodes: int = 4
    u: float = 0.3

    def problem(self, *, max_nodes: int | None = None, check: Check = unbounded) -> Problem:
        check()
        tier = [
            option(0, 1, 1, n, 1, usd=10.0 * n, u=self.u**n, used=self.rate_per_s / (10.0 * n))
            for n in range(1, (max_nodes or self.max_nodes) + 1)
        ]
        return Problem(
            (tuple(o for o in tier if o.utilisation < 1),), latency, 0.1, utilisation_max=0.7
        )

    def changed(self, name: str, factor: float, check: Check = unbounded) -> Problem | None:
        check()
        if name == "arrival_rate":
            return replace(self, rate_per_s=self.rate_per_s * factor).problem()
        return replace(self, u=self.u * factor).problem() if name == "crash_per_year" else None


def test_the_least_max_nodes_is_found_by_building_the_problem_again() -> None:
    source = _Ladder(rate_per_s=95.0)  # 70 % need 14 nodes
    texts, body = explain_infeasible(source.problem(), source)
    assert texts[0].startswith("tier 1: no instance type and node count carries the load")
    assert "max_nodes: 4 allowed, 14 are enough, for 140.00 USD a month" in texts
    assert [relaxation["value"] for relaxation in body["alone"]] == [14]


def test_max_nodes_binds_where_many_small_machines_would_be_cheaper() -> None:
    large = option(0, 1, 1, 1, 8, usd=500.0, u=1e-3)
    small = tuple(option(0, 1, 1, n, 1, usd=10.0 * n, u=10.0**-n) for n in range(1, 9))

    @dataclass(frozen=True)
    class Two:
        max_nodes: int = 2

        def problem(self, *, max_nodes: int | None = None, check: Check = unbounded) -> Problem:
            check()
            return Problem(((large, *small[: max_nodes or 2]),), latency, 1e-3)

        def changed(self, name: str, factor: float, check: Check = unbounded) -> Problem | None:
            raise AssertionError((name, factor, check))

    source = Two()
    problem = source.problem()
    texts = find_binding(problem, solve(problem), source)
    assert "max_nodes: with 4 allowed 470.00 USD a month less" in texts


def test_nodes_that_are_too_dear_anyway_are_not_looked_for() -> None:
    class Never(_Ladder):
        def problem(self, *, max_nodes: int | None = None, check: Check = unbounded) -> Problem:
            assert max_nodes is None
            return super().problem(check=check)

    source = Never(rate_per_s=5.0)
    problem = source.problem()
    assert not any("max_nodes" in text for text in find_binding(problem, solve(problem), source))


def test_sensitivity_gives_the_cost_and_the_tiers_that_change() -> None:
    source = _Ladder()  # 25 / s at 70 %: 4 nodes, which are 0.9919 available
    solution = solve(source.problem())
    assert solution.usd_per_month == 40.0
    rows = {(r["input"], r["factor"]): r for r in sensitivity(source, solution, Budget(99))}
    assert set(rows) == {("crash_per_year", 0.5), ("crash_per_year", 2.0),
                         ("arrival_rate", 0.8), ("arrival_rate", 1.2)}  # fmt: skip
    assert rows["arrival_rate", 0.8]["usd_more"] == -10.0
    assert rows["arrival_rate", 0.8]["changed"] == ["t0"]
    assert rows["arrival_rate", 1.2]["usd_per_month"] is None  # five nodes needed, four allowed
    assert rows["crash_per_year", 0.5]["usd_more"] == 0.0
    assert rows["crash_per_year", 0.5]["changed"] == []


@pytest.mark.parametrize("error", [InputError, PlannerError])
def test_a_question_beside_the_plan_that_fails_does_not_take_the_answer_along(
    error: type[InputError | PlannerError],
) -> None:
    """Models may refuse more machines or a doubled rate."""

    class Limited(_Ladder):
        def problem(self, *, max_nodes: int | None = None, check: Check = unbounded) -> Problem:
            if max_nodes is not None:
                raise error("availability model", expected="fewer", got=str(max_nodes))
            check()
            large, small = (option(0, 1, 1, 1, 8, usd=500.0, u=1e-3), option(0, 1, 1, 1, 1, u=0.1))
            return Problem(((large, small),), latency, self.u)

        def changed(self, name: str, factor: float, check: Check = unbounded) -> Problem | None:
            check()
            raise error(name, expected="less", got=f"{factor:g} times as much")

    source, never = Limited(u=1e-3), Limited(u=1e-9)
    problem = source.problem()
    solution = solve(problem)
    rows = sensitivity(source, solution, Budget(99))
    assert rows
    assert all("cut" in row for row in rows)
    assert find_binding(problem, solution, source) == [
        "availability: without it 490.00 USD a month less"
    ]
    texts, body = explain_infeasible(never.problem(), never)
    assert [relaxation["limit"] for relaxation in body["alone"]] == ["availability"]
    assert "cut" in texts[-1]


def test_a_slower_fail_over_never_makes_a_plan_cheaper_in_the_degraded_condition() -> None:
    """Extra active nodes serve while one is down, spares do not: a pool is no substitute."""
    case = request_from_file(EXAMPLE, None, Overrides()).case
    slower = case.changed("failover_s", 2.0)
    costs = [solve(problem).usd_per_month for problem in (case.problem(), slower)]
    assert costs[0] <= costs[1]


def test_limits_that_fail_together_are_loosened_together_and_said_to_be() -> None:
    options = (option(0, 1, 1, 1, 1, u=1e-2),)
    problem = Problem((options,), latency, unavailability_max=1 - 0.999, latency_ms_max={95: 1.0})
    texts, body = explain_infeasible(problem)
    assert "no single limit" in texts[0]
    assert [relaxation["limit"] for relaxation in body["together"]] == ["availability", "p95_ms"]
    assert not any(relaxation["least"] for relaxation in body["together"])
    assert body["alone"] == []


def test_a_load_that_nothing_carries_is_said_to_be_that() -> None:
    texts, body = explain_infeasible(Problem(((),), latency, unavailability_max=1 - 0.9))
    assert texts[0] == "tier 1: no instance type and node count carries the load"
    assert dict(body) == {"alone": [], "together": [], "cut": None}
