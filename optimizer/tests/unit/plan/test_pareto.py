"""The front of cost against a limit, and its figure, against exhaustive enumeration."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.tolerances import CENT
from optimizer.plan.explain import pareto
from optimizer.plan.explain.curve import AVAILABILITY, Axis, Budget, Curve
from optimizer.plan.explain.pareto import NINES_BEYOND, TIMES_THE_PLAN, front
from optimizer.plan.solve.model import Solution, solve
from optimizer.plan.solve.problem import Problem
from optimizer.tests.small_problems import small_problems, true_front
from random_tests import examples

AXES = st.sampled_from([AVAILABILITY, Axis("p95_ms"), Axis("p99_ms")])


def _drawn_part(
    problem: Problem, axis: Axis, solution: Solution, times: float = TIMES_THE_PLAN
) -> list[tuple[float, float]]:
    """The true front, up to the first point that is NINES_BEYOND nines beyond the SLO, of fleets
    that cost at most `times` the plan."""
    limit = axis.limit(problem)
    end = limit / 10**NINES_BEYOND if axis.is_availability else 0.0
    usd_max = times * solution.usd_per_month + CENT
    points = [point for point in true_front(problem, axis) if point[1] <= usd_max]
    inside = sum(x >= end for x, _ in points)
    return points[: inside + 1]


@examples(24)
@given(small_problems(), AXES, st.one_of(st.just(TIMES_THE_PLAN), st.floats(1.0, 3.0)))
def test_the_front_is_that_of_exhaustive_enumeration(
    problem: Problem, axis: Axis, times: float
) -> None:
    """Fleets that cost more than so many `times` the plan are not on it."""
    solution = solve(problem)
    assume(solution.path is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pareto, "TIMES_THE_PLAN", times)
        curve = front(Curve(problem, axis, Budget(500)), solution, points_max=60, finest=0.0)
    assert curve.cut == ""
    assert all(curve.closed)
    expected = _drawn_part(problem, axis, solution, times)
    assert [p.usd for p in curve.points] == pytest.approx([usd for _, usd in expected])
    least = [x for x, _ in expected]
    if axis.is_availability:  # the last may lie where no better fleet of its cost is looked for
        least[-1] = curve.points[-1].tight
    assert [p.tight for p in curve.points] == pytest.approx(least, rel=1e-7)


@examples(12)
@given(small_problems(), AXES, st.integers(1, 6))
def test_a_front_that_is_cut_says_so_and_its_points_are_optima(
    problem: Problem, axis: Axis, points_max: int
) -> None:
    solution = solve(problem)
    assume(solution.path is not None)
    curve = front(Curve(problem, axis, Budget(8)), solution, points_max=points_max, finest=0.0)
    expected = _drawn_part(problem, axis, solution)
    if not curve.cut:
        assert len(curve.points) == len(expected)
    for point in curve.points:
        least = min(usd for x, usd in true_front(problem, axis) if x <= point.tight * (1 + 1e-7))
        assert point.usd == pytest.approx(least)
    costs = [point.usd for point in curve.points]
    assert costs == sorted(costs)
