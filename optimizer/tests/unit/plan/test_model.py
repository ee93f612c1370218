"""The program finds the cheapest fleet, and says what it proves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UnstableError
from optimizer.availability import FailureRates, availability
from optimizer.commands.plan_text import unproved
from optimizer.latency import TierLatency
from optimizer.latency.station import POLICIES
from optimizer.plan.inputs.case import Case, Slo
from optimizer.plan.solve.choices import cheapest_of
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import LIMIT_S, Solution, solve
from optimizer.plan.solve.options import Covers, Degraded, Limits, Option, TierDemand, usd_when_off
from optimizer.plan.solve.presolve import eligible_pools, routes_by_cost
from optimizer.plan.solve.problem import Path, Problem, unavailability_of, violations
from optimizer.plan.solve.table import find_undominated, tier_table
from optimizer.prices import Instance, PriceBook
from optimizer.tests.small_problems import all_plans, latency, option, small_problems
from optimizer.tests.synthetic import plan_instance
from random_tests import examples

DEGRADED = (None, Degraded(nodes_down=1), Degraded(nodes_down=2),
            Degraded(limping=1, limp_speed=0.5))  # fmt: skip
STILL = Deadline(LIMIT_S, lambda: 0.0)  # which is never over


def _while_degraded(condition: Degraded) -> Any:
    """Return the law of a degraded tier: fewer servers, slower by each limping one."""

    def found(path: Path, tier: int) -> dict[int, float]:
        left = replace(path[tier], needed=condition.servers(path[tier]))
        slow = latency((*path[:tier], left, *path[tier + 1 :]))
        slower = 1.0 + condition.limping * (1.0 - condition.limp_speed) / left.needed
        return {q: slower * value for q, value in slow.items()}

    return found


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small problems, some without a limit of availability or latency, some degraded."""
    problem, degraded = draw(small_problems()), draw(st.sampled_from(DEGRADED))
    return replace(problem,
                   unavailability_max=draw(st.sampled_from([None, problem.unavailability_max])),
                   latency_ms_max=draw(st.sampled_from([{}, problem.latency_ms_max])),
                   degraded=degraded,
                   latency_degraded=_while_degraded(degraded) if degraded else None)  # fmt: skip


@examples(200)
@given(problems())
def test_the_plan_costs_what_exhaustive_enumeration_finds(problem: Problem) -> None:
    plans, solution = all_plans(problem), solve(problem)
    if not plans:
        assert solution.path is None
    else:
        assert violations(problem, solution.path) == []
        assert solution.usd_per_month == pytest.approx(plans[0][0], abs=1e-9)


@examples(50)
@given(small_problems())
def test_routes_come_in_the_order_of_their_least_cost(problem: Problem) -> None:
    pools = eligible_pools(replace(problem, unavailability_max=None))
    routes = list(routes_by_cost(pools, [pool.columns.usd for pool in pools]))
    least: dict[tuple[tuple[int, int], ...], float] = {}
    unlimited = replace(problem, unavailability_max=None, latency_ms_max={})
    for usd, path in all_plans(unlimited):
        least.setdefault(tuple((o.upstream, o.replicas) for o in path), usd)
    assert {route: usd for usd, route in routes} == pytest.approx(least)
    assert [usd for usd, _ in routes] == sorted(usd for usd, _ in routes)


def test_the_first_routes_of_very_many_are_had_at_once() -> None:
    tiers = tuple(
        tuple(option(t, 2**a, r, needed=2, vcpus=2, usd=r) for a in range(t + 1) for r in (1, 2))
        for t in range(24)
    )
    pools = eligible_pools(Problem(options=tiers, latency=latency))
    routes = routes_by_cost(pools, [pool.columns.usd for pool in pools])
    assert [usd for usd, _ in itertools.islice(routes, 3)] == [24.0, 25.0, 25.0]


def test_the_solvers_tolerance_does_not_swallow_nines() -> None:
    """Nine nines: two tiers at 6e-10 are 20 % over the budget of 1e-9, far inside 1e-6."""
    cheap = [option(t, 1, 1, 2, 2, usd=10.0, u=6e-10) for t in range(2)]
    dear = [option(t, 1, 1, 2, 2, usd=20.0, u=1e-10) for t in range(2)]
    tiers = tuple((c, d) for c, d in zip(cheap, dear, strict=True))
    problem = Problem(tiers, latency, unavailability_max=1e-9)
    solution = solve(problem)
    assert unavailability_of(solution.path) <= 1e-9
    assert solution.usd_per_month == 30.0  # one dear tier is enough: 7e-10


def test_what_a_fleet_reaches_is_a_limit_that_it_keeps() -> None:
    """HiGHS's presolve calls this infeasible."""
    rows = (  # level, replicas, needed, vCPUs, USD, unavailability
        ((1, 1, 2, 4, 36, 3e-7), (1, 1, 4, 1, 32, 1e-7), (1, 2, 2, 2, 5, 1e-7),
         (1, 2, 3, 4, 8, 1e-4)),
        ((1, 1, 4, 4, 1, 1e-6), (1, 2, 2, 2, 17, 1e-6), (2, 1, 2, 2, 35, 5e-7),
         (2, 1, 5, 4, 36, 5e-7)),
        ((1, 1, 5, 4, 4, 1e-4), (1, 1, 4, 1, 25, 5e-7), (1, 1, 1, 2, 29, 1e-6),
         (2, 1, 2, 2, 37, 1e-6), (2, 1, 4, 4, 36, 1e-4), (2, 1, 1, 2, 22, 2e-5),
         (2, 2, 5, 2, 1, 5e-7)),
    )  # fmt: skip
    tiers = tuple(
        tuple(option(t, *row[:4], usd=float(row[4]), u=row[5]) for row in tier)
        for t, tier in enumerate(rows)
    )
    only = (tiers[0][3], tiers[1][3], tiers[2][4])  # the cheapest that is fast enough
    problem = Problem(tiers, latency, unavailability_of(only), {95: 111.0275625908})
    assert solve(problem).path == only


def test_extra_nodes_stand_in_for_a_lost_one_and_spares_of_a_pool_do_not() -> None:
    ara = option(0, 1, 2, 3, 2, used=0.5, mechanism="ara", extra=1)
    pf = replace(ara, mechanism="pf")
    one_down, limping = Degraded(nodes_down=1), Degraded(limping=1, limp_speed=0.5)
    assert (one_down.servers(ara), one_down.servers(pf)) == (3, 2)
    assert one_down.utilisation(ara) == 0.5
    assert one_down.utilisation(pf) == pytest.approx(0.75)
    assert limping.utilisation(ara) == limping.utilisation(pf) == pytest.approx(0.6)


def test_a_tier_that_cannot_hold_its_replicas_when_degraded_is_out() -> None:
    two = option(0, 1, 2, 2, 2, used=0.1)
    problem = Problem(((two,),), latency, degraded=Degraded(nodes_down=1))
    assert math.isinf(Degraded(nodes_down=1).utilisation(two))
    assert solve(problem).path is None
    assert solve(problem.without("degraded")).path == (two,)


def test_a_search_without_time_says_how_far_off_it_may_be(big: Problem) -> None:
    full = solve(big)
    assert full.proved
    cut = solve(big, None, Deadline(0.0))
    assert not cut.proved
    assert violations(big, cut.path) == []
    assert full.usd_per_month <= cut.usd_per_month
    assert (1.0 - cut.gap) * cut.usd_per_month <= full.usd_per_month + 1e-6


def test_choices_that_no_time_was_left_for_are_counted_and_leave_no_bound() -> None:
    problem = Problem(_chain_of(range(1, 7)), latency, latency_ms_max={95: 600.0})

    def no_time(_check: Any) -> Problem:
        raise OutOfTimeError("plan", expected="the options", got="neither")

    choice = cheapest_of([lambda _check: problem, no_time, no_time], STILL)
    assert choice.decided == 1
    assert choice.found.gap == 1.0
    with pytest.raises(OutOfTimeError) as error:
        cheapest_of([no_time, no_time], Deadline(7.0, lambda: 0.0))
    assert "2 choices within 7 s" in error.value.expected


@pytest.mark.parametrize(
    ("gap", "variants", "told"),
    [(0.25, None, "25.0%"), (1.0, None, "7 solves"), (1.0, (3, 256), "3 of 256 choices")],
)
def test_a_gap_without_a_bound_is_told_as_how_far_the_search_came(
    gap: float, variants: tuple[int, int] | None, told: str
) -> None:
    keys = ("choices_decided", "choices_that_keep")
    solver = {"gap": gap, "seconds": 120.04, "solves": 7, "latency_cuts": 2000}
    integrity = None if variants is None else dict(zip(keys, variants, strict=True))
    text = unproved({"solver": solver, "integrity": integrity})
    assert told in text
    assert "100" not in text


def _bumpy(path: Path) -> dict[int, float]:
    """Return a latency that is higher with three servers in the middle tier than with fewer."""
    latencies = latency(path)
    bump = 1.0 + 3.0 * (path[1].needed == 3)
    return {q: bump * value for q, value in latencies.items()}


def _chain_of(sizes: range) -> tuple[Any, ...]:
    return tuple(tuple(option(t, 1, 1, n, 2, usd=10.0 * n) for n in sizes) for t in range(3))


@pytest.mark.parametrize(("limit_ms", "found"), [(600.0, True), (1.0, False)])
def test_a_law_that_is_slower_with_more_nodes_proves_nothing(limit_ms: float, found: bool) -> None:
    smooth = Problem(_chain_of(range(1, 7)), latency, latency_ms_max={95: limit_ms})
    bumpy = replace(smooth, latency=_bumpy)
    assert cheapest_of([lambda _check: smooth], STILL).found.proved
    solution = cheapest_of([lambda _check: bumpy], STILL).found
    assert (solution.path is not None) == found
    assert not solution.proved
    assert solution.proof == "none"
    assert "tier t1" in (solution.breach or "")
    assert "3 x 2 vCPUs" in (solution.breach or "")
    if found:
        assert 0 < solution.gap <= 1.0
    else:
        assert solution.gap is None


@pytest.fixture(scope="module")
def big() -> Problem:
    return plan_instance(2, tiers=6, types=15, max_nodes=20, max_replicas=2).problem()


def test_six_tiers_are_proved_and_keep_every_limit(big: Problem) -> None:
    solution, unlimited = solve(big), solve(big.without("latency"))
    assert solution.proof == "labels"
    assert violations(big, solution.path) == []
    assert unlimited.usd_per_month < solution.usd_per_month  # latency had its price


SLOW = (12, 0.5)  # takes the cuts as long as all others


@pytest.mark.parametrize(
    ("seed", "tightness"),
    [choice for choice in itertools.product((0, 4, 7, 12, 20), (0.3, 0.5)) if choice != SLOW]
    + [pytest.param(*SLOW, marks=pytest.mark.long)],
)
def test_labels_and_cuts_prove_the_same_cost(seed: int, tightness: float) -> None:
    """Two proofs of the same optimum; the cuts only rely on larger fleets being no slower."""
    problem = plan_instance(
        seed, tiers=3, types=20, max_nodes=12, max_replicas=3, tightness=tightness
    ).problem()
    by_labels, by_cuts = solve(problem), solve(replace(problem, chain=None))
    assert (by_labels.proof, by_cuts.proof) == ("labels", "cuts")
    assert by_labels.usd_per_month == pytest.approx(by_cuts.usd_per_month, abs=1e-6)


@pytest.mark.parametrize("condition", [Degraded(nodes_down=1), Degraded(limping=1, limp_speed=0.5)])
def test_labels_and_cuts_prove_the_same_cost_when_degraded(condition: Degraded) -> None:
    case = plan_instance(3, tiers=3, types=8, max_nodes=8, max_replicas=2, tightness=0.6)
    slo = case.slo.model_copy(update={"degraded": condition})
    problem = replace(case, slo=slo).problem()
    by_labels = solve(problem, None, STILL)
    by_cuts = solve(replace(problem, chain=None), None, STILL)
    assert by_cuts.proof == "cuts"
    assert by_labels.proved
    assert by_labels.usd_per_month == pytest.approx(by_cuts.usd_per_month, abs=1e-6)
    assert violations(problem, by_labels.path) == []
    undegraded = solve(case.problem(), None, STILL)
    assert (undegraded.usd_per_month or 0.0) < (by_labels.usd_per_month or 0.0)


@examples(100)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40))
def test_undominated_rows_are_those_that_none_matches_or_undercuts(rows: list[Any]) -> None:
    table = np.array(rows, dtype=float)
    undominated = find_undominated(table)
    for i, row in enumerate(table):
        rivals = [j for j in undominated if j != i and np.all(table[j] <= row)]
        assert (i in undominated) == (not rivals)


def test_the_table_holds_a_match_for_every_fleet_that_could_be_built() -> None:
    """Against a loop over every type, size, mechanism and number of extra nodes."""
    machines = [
        Instance("small", 0.5, 1.0, 0.01, usd_per_month_off=5.0),
        Instance("large", 2.0, 4.0, 0.035, usd_per_month_off=20.0),
        Instance("burst", 2.0, 4.0, 0.02, 0.3),
    ]
    rates, limits = (
        FailureRates(6.0, 60.0, 86_400.0),
        Limits(max_nodes=5, max_replicas=2, max_collision=1.0),
    )
    law = TierLatency(0.02, 1.0, 1.0, 0.2, 0.5, 10.0)
    demand = TierDemand("web", law, 20.0, 512.0)
    table = tier_table(demand, [1, 2], machines, Covers(rates, "on-prem", limits), limits)
    c, checked = table.columns, 0
    left = 1.0 - 0.2 * (1.0 - 0.5)
    for level, r, machine, n in itertools.product([1, 2], [1, 2], machines, range(1, 6)):
        utilisation = 20.0 * level * r * 0.02 / (n * machine.sustained_cores * left)
        if n < r or utilisation >= 1.0:
            continue
        for mechanism, extra in itertools.product(["ara", "pf"], range(6 - n)):
            u = availability(n, extra, rates, mechanism=mechanism, scheme="on-prem").unavailability
            usd_off = usd_when_off(machine)
            usd = n * machine.usd_per_month + extra * (
                usd_off if mechanism == "pf" else machine.usd_per_month
            )
            match = (c.upstream == level) & (c.replicas == r) & (c.needed == n)
            match &= (c.vcpus == machine.vcpus) & np.isclose(c.utilisation, utilisation)
            match &= (c.usd <= usd + 1e-9) & (c.unavailability <= u + 1e-10)
            assert match.any(), (level, r, machine.name, n, mechanism, extra)
            checked += 1
    assert checked > 100
    assert all(o.usd_per_month > 0 and 0 < o.utilisation < 1 for o in table)


@pytest.mark.parametrize(
    ("off", "standby", "usd"), [(4.0, 1, 14.0), (0.0, 2, 10.0), (None, 1, 20.0)]
)
def test_a_cold_spare_costs_what_a_machine_that_is_off_costs(
    off: float | None, standby: int, usd: float
) -> None:
    """0 is a price; without one a machine that is off costs as much as one that is on."""
    machine = Instance("slice", 1.0, 1.0, 10.0 / 730.0, usd_per_month_off=off)
    limits = Limits(max_nodes=3, max_replicas=1)
    covers = Covers(FailureRates(), "on-prem", limits)
    demand = TierDemand("web", TierLatency(0.01, 1.0, 1.0), 10.0, 512.0)
    table = tier_table(demand, [1], [machine], covers, limits)
    cheapest = {(o.nodes, o.standby): o.usd_per_month for o in table}
    assert cheapest[1, standby] == pytest.approx(usd)
    assert (2, 0) not in cheapest or cheapest[2, 0] == pytest.approx(20.0)


C5 = tuple(Instance(f"c5-{n}", n, 2.0 * n, 0.0425 * n) for n in (2.0, 4.0, 8.0))
LAWS = (TierLatency(0.02318, 1.0, 1.0), TierLatency(0.01624, 3.0, 1.0, 0.013, 0.3, 5.0),
        TierLatency(0.00942, 1.0, 1.0))  # fmt: skip


def _case(
    max_nodes: int, rate: float = 104.16, policy: str = "round-robin", replicas: int = 1
) -> Case:
    tiers = tuple(
        TierDemand(name, law, rate, 512.0, rate, 0.1, instance_types=types)
        for name, law, types in zip(
            ("web", "app", "db"), LAWS, (None, ("c5-2.0",), None), strict=True
        )
    )
    return Case(tiers=tiers, slo=Slo(p95_ms=130.981), scheme="cloud", region="here",
                book=PriceBook("2026-01-01", "test", {"here": C5}),
                limits=Limits(max_nodes=max_nodes, max_replicas=replicas, max_collision=0.9),
                rates=FailureRates(), policy=policy)  # fmt: skip


def _planned(case: Case) -> Solution:
    solution = cheapest_of([lambda check: case.problem(check=check)], STILL).found
    assert solution.proved
    return solution


def _each_size(tier: Iterable[Option]) -> list[Option]:
    """List the cheapest option of each size: no other counts without a limit of availability."""
    best: dict[tuple[float, ...], Option] = {}
    for candidate in sorted(tier, key=lambda option: option.usd_per_month):
        best.setdefault(
            (candidate.upstream, candidate.replicas, candidate.needed, candidate.instance.vcpus),
            candidate,
        )
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
