"""The optimization against exhaustive enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.plan.model import solve
from optimizer.plan.options import Option
from optimizer.plan.problem import Path, Problem, availability_of, violations
from optimizer.prices import Instance


def _option(
    tier: int, upstream: int, replicas: int, needed: int, vcpus: int, **rest: float
) -> Option:
    usd = rest.get("usd", 10.0 * needed * vcpus)
    return Option(
        tier=f"t{tier}",
        upstream=upstream,
        replicas=replicas,
        instance=Instance(f"i{vcpus}", vcpus, 8.0, usd / 730 / needed),
        needed=needed,
        mechanism="ara",
        extra=0,
        usd_per_month=usd,
        unavailability=rest.get("u", 1e-4),
        utilisation=rest.get("used", 0.5),
        collision=rest.get("met", 0.0),
    )


def _latency(path: Path) -> dict[int, float]:
    """Any law will do that falls with nodes and vCPUs and depends on the replicas."""
    value = 0.0
    for option in path:
        load = option.upstream * option.replicas / (option.needed * option.instance.vcpus)
        value += 100.0 * (1 + load) / (option.instance.vcpus * option.replicas**0.5)
        value += 40.0 / option.needed
    return {95: value, 99: 1.4 * value}


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Two or three tiers, every level that the tiers above can make, costs and losses at random."""
    levels, tiers = {1}, []
    for tier in range(draw(st.integers(2, 3))):
        options = []
        for level in sorted(levels):
            for replicas in draw(st.sampled_from([(1,), (1, 2)])):
                for _ in range(draw(st.integers(1, 3))):
                    options.append(
                        _option(
                            tier,
                            level,
                            replicas,
                            needed=draw(st.integers(replicas, 5)),
                            vcpus=draw(st.sampled_from([1, 2, 4])),
                            usd=float(draw(st.integers(1, 60))),
                            u=draw(st.sampled_from([1e-7, 3e-7, 5e-7, 1e-6, 1e-4, 1e-3])),
                            used=draw(st.sampled_from([0.3, 0.6, 0.8])),
                            met=0.0 if level == 1 else draw(st.sampled_from([0.2, 0.6])),
                        )
                    )
        levels = {o.upstream * o.replicas for o in options}
        tiers.append(tuple(options))
    limits = {95: draw(st.floats(60.0, 500.0)), 99: draw(st.floats(100.0, 600.0))}
    return Problem(
        options=tuple(tiers),
        latency=_latency,
        availability_min=draw(st.sampled_from([None, 0.999, 0.9998, 0.999999])),
        latency_ms_max=draw(st.sampled_from([{}, limits])),
        utilisation_max=draw(st.sampled_from([0.7, 1.0])),
        collision_max=draw(st.sampled_from([0.5, 1.0])),
    )


def _cheapest_by_enumeration(problem: Problem) -> float | None:
    costs = []
    for path in itertools.product(*problem.options):
        level = 1
        for option in path:
            if option.upstream != level:
                break
            level *= option.replicas
        else:
            if not violations(problem, path):
                costs.append(math.fsum(o.usd_per_month for o in path))
    return min(costs, default=None)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_plan_costs_what_exhaustive_enumeration_finds(problem: Problem) -> None:
    expected = _cheapest_by_enumeration(problem)
    found = solve(problem)
    if expected is None:
        assert found.path is None
    else:
        assert found.path is not None
        assert violations(problem, found.path) == []
        assert found.usd_per_month == pytest.approx(expected, abs=1e-9)


def test_the_solvers_tolerance_does_not_swallow_nines() -> None:
    """Nine nines: two tiers at 6e-10 are 20 % over the budget of 1e-9, far inside 1e-6."""
    cheap = [_option(t, 1, 1, 2, 2, usd=10.0, u=6e-10) for t in range(2)]
    dear = [_option(t, 1, 1, 2, 2, usd=20.0, u=1e-10) for t in range(2)]
    tiers = tuple((c, d) for c, d in zip(cheap, dear, strict=True))
    problem = Problem(tiers, _latency, availability_min=1 - 1e-9)
    found = solve(problem)
    assert found.path is not None
    assert availability_of(found.path) >= 1 - 1e-9
    assert found.usd_per_month == 30.0  # one dear tier is enough: 7e-10


def test_upstream_replicas_choose_the_level_of_the_tier_below() -> None:
    """r = 2 above costs nothing here, but then only the dear option of level 2 is left below."""
    front = (_option(0, 1, 1, 2, 2, usd=11.0), _option(0, 1, 2, 2, 2, usd=10.0))
    back = (_option(1, 1, 1, 2, 2, usd=10.0), _option(1, 2, 1, 2, 2, usd=50.0))
    found = solve(Problem((front, back), _latency))
    assert found.path == (front[0], back[0])
