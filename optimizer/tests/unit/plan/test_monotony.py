"""Fewer choices and more load never make a plan cheaper, where a middle tier is overloaded now and
then; and small chains against every fleet that could be built."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from core.errors import UnstableError
from optimizer.availability import FailureRates
from optimizer.latency import TierLatency
from optimizer.latency.station import POLICIES
from optimizer.plan.inputs.case import Case, Slo
from optimizer.plan.solve.choices import cheapest_of
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.options import Limits, Option, TierDemand
from optimizer.plan.solve.problem import violations
from optimizer.prices import Instance, PriceBook

C5 = tuple(Instance(f"c5-{n}", n, 2.0 * n, 0.0425 * n) for n in (2.0, 4.0, 8.0))
LAWS = (
    TierLatency(0.02318, 1.0, 1.0),
    TierLatency(0.01624, 3.0, 1.0, 0.013, 0.3, 5.0),
    TierLatency(0.00942, 1.0, 1.0),
)


def _case(
    max_nodes: int, rate: float = 104.16, policy: str = "round-robin", replicas: int = 1
) -> Case:
    tiers = tuple(
        TierDemand(name, law, rate, 512.0, rate, 0.1, instance_types=types)
        for name, law, types in zip(
            ("web", "app", "db"), LAWS, (None, ("c5-2.0",), None), strict=True
        )
    )
    return Case(
        tiers=tiers,
        slo=Slo(p95_ms=130.981),
        scheme="cloud",
        region="here",
        book=PriceBook("2026-01-01", "test", {"here": C5}),
        limits=Limits(max_nodes=max_nodes, max_replicas=replicas, max_collision=0.9),
        rates=FailureRates(),
        policy=policy,
    )


def _planned(case: Case) -> Solution:
    found = cheapest_of([lambda check: case.problem(check=check)], clock=lambda: 0.0).found
    assert found.proved
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_fewer_nodes_allowed_are_never_cheaper(policy: str) -> None:
    usd = [_planned(_case(n, policy=policy)).usd_per_month or float("inf") for n in (6, 4, 3, 2)]
    assert usd == sorted(usd)
    assert usd[0] < usd[-1]


def test_more_load_is_never_cheaper() -> None:
    rates = (20.0, 40.0, 70.0, 90.0, 120.0)
    usd = [_planned(_case(4, rate)).usd_per_month or float("inf") for rate in rates]
    assert usd == sorted(usd)


def _each_size(tier: Iterable[Option]) -> list[Option]:
    """The cheapest option of each size; without a limit of availability no other counts."""
    best: dict[tuple[float, ...], Option] = {}
    for one in sorted(tier, key=lambda option: option.usd_per_month):
        best.setdefault((one.upstream, one.replicas, one.needed, one.instance.vcpus), one)
    return list(best.values())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_plan_is_the_cheapest_of_all_fleets(policy: str, replicas: int) -> None:
    """By plain loops over every size of every tier, evaluated by the same law."""
    case = _case(3, 50.0, policy, replicas)
    problem = case.problem()
    usd = []
    for path in itertools.product(*map(_each_size, problem.options)):
        if any(b.upstream != a.upstream * a.replicas for a, b in itertools.pairwise(path)):
            continue
        try:
            if not violations(problem, path):
                usd.append(sum(option.usd_per_month for option in path))
        except UnstableError:
            continue
    assert _planned(case).usd_per_month == pytest.approx(min(usd), abs=1e-6)
