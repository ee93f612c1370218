"""From rates and prices to the cheapest fleet, against every fleet that could be built."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.tolerances import U_FLOOR
from optimizer.availability import FailureRates, availability, least_extra_nodes, least_pool, sizes
from optimizer.availability.rates import availability_text
from optimizer.latency import TierLatency
from optimizer.plan.inputs.case import Case, Slo, slo_from
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Degraded, Limits, TierDemand, usd_when_off
from optimizer.prices import Instance, PriceBook, load_prices
from optimizer.uncertainty import rates_from
from random_tests import examples

DEGRADED = (None, Degraded(nodes_down=1), Degraded(nodes_down=3),
            Degraded(limping=1, limp_speed=0.5),
            Degraded(nodes_down=2, limping=1, limp_speed=0.5))  # fmt: skip
SHOCKS = FailureRates(common_cause=0.5, common_cause_nodes=4)


def _case(rates: FailureRates, target: float, max_nodes: int, **figures: Any) -> Case:
    """One tier of c5.large, 100 requests a second of `busy_s` each."""
    law = TierLatency(figures.pop("busy_s", 0.02), 1.0, 1.0)
    tier = TierDemand("web", law, 100.0, 512.0, instance_types=figures.pop("types", ("c5.large",)))
    return Case(tiers=(tier,), slo=Slo(availability=target, degraded=figures.pop("degraded", None)),
                scheme=figures.pop("scheme", "cloud"), region="us-east-1",
                book=figures.pop("book", load_prices()),
                limits=Limits(max_nodes=max_nodes, max_replicas=1, max_utilisation=1.0),
                rates=rates)  # fmt: skip


def _on_premises(
    needed: int, rates: FailureRates, target: float, max_nodes: int, mechanism: str
) -> Case:
    """Build a case whose load needs `needed` nodes, half a node idle, with one mechanism."""
    case = _case(rates, target, max_nodes, busy_s=0.02 * (needed - 0.5), scheme="on-prem")
    return replace(case, tiers=(replace(case.tiers[0], mechanisms=(mechanism,)),))


@pytest.mark.parametrize("max_nodes", [6, 20])
def test_a_step_without_gain_is_no_reason_to_stop(max_nodes: int) -> None:
    """Shocks of four: a third extra node changes nothing, a fourth one does."""
    solution = solve(_case(SHOCKS, 0.9999999, max_nodes).problem())
    assert solution.path[0].nodes == 6
    assert solution.usd_per_month == pytest.approx(372.30)


@pytest.mark.parametrize("nodes", [2, 3, 4, 7])
def test_the_plan_and_the_sizing_agree_on_the_least_nodes(nodes: int) -> None:
    rates = FailureRates(common_cause=0.5, common_cause_nodes=nodes)
    solution = solve(_case(rates, 0.9999999, 20, busy_s=0.01).problem())
    sizing = least_extra_nodes(1, 0.9999999, rates, scheme="cloud")
    assert solution.path[0].needed == 1
    assert solution.path[0].extra == sizing.extra


@st.composite
def rates(draw: st.DrawFn) -> FailureRates:
    """Draw rates with or without shocks, limping and repair, exact or at a confidence."""
    table: dict[str, Any] = {
        "crash_per_year": draw(st.sampled_from([1.0, 9.0, {"count": 2, "node_years": 3.0}])),
        "failover_s": draw(st.sampled_from([15.0, 600.0])),
        "repair_s": draw(st.sampled_from([None, 86_400.0])),
    }
    if draw(st.sampled_from([True, True, False])):
        table["common_cause"] = draw(st.sampled_from([0.1, 0.5]))
        table["common_cause_nodes"] = draw(st.sampled_from([2, 3, 4, 5, 9, None]))
    if draw(st.sampled_from([False, False, True])):
        table |= {"limp_per_year": 2.0, "limp_recovery_s": 7_200.0}
        table["limp_capacity"] = draw(st.sampled_from([0.0, 0.5]))
    uncertain = rates_from({key: value for key, value in table.items() if value is not None})
    return uncertain.at(draw(st.sampled_from([0.5, 0.95])))


@examples(100)
@given(rates(), st.sampled_from(["cloud", "on-prem"]), st.sampled_from(["ara", "pf"]),
       st.integers(1, 3),
       st.sampled_from([0.99, 0.9999, 1 - 1e-6, 1 - 1e-8, 1 - 1e-10]))  # fmt: skip
def test_planner_and_target_find_the_same_least_size(
    rates: FailureRates, scheme: str, mechanism: str, needed: int, target: float
) -> None:
    predictions = sizes(needed, 12, rates, mechanism=mechanism, scheme=scheme)
    first = next(
        (size for size, prediction in enumerate(predictions) if prediction.keeps(target)), None
    )
    if mechanism == "ara":
        sizing = least_extra_nodes(needed, target, rates, scheme=scheme, extra_max=12)
    elif scheme == "on-prem":
        sizing = least_pool(needed, target, rates, pool_max=12)
    else:
        return  # the cloud's pool has no end, and no size
    assert sizing.extra == first


@examples(40)
@given(rates(), st.sampled_from(["ara", "pf"]), st.integers(1, 4), st.floats(0.0, 1.0),
       st.floats(0.01, 0.99))  # fmt: skip
def test_a_target_between_two_sizes_has_one_answer(
    rates: FailureRates, mechanism: str, needed: int, place: float, share: float
) -> None:
    """The command finds the size that the planner buys, however near the two sizes are."""
    extra_max = 12
    figures = [
        prediction.unavailability_most
        for prediction in sizes(needed, extra_max, rates, mechanism=mechanism, scheme="on-prem")
    ]
    steps = [(a, b) for a, b in itertools.pairwise(figures) if a > b] or [(1.0, figures[0])]
    above, below = steps[round(place * (len(steps) - 1))]
    target = min(1.0 - U_FLOOR, 1.0 - (below + share * (above - below)))
    solution = solve(_on_premises(needed, rates, target, needed + extra_max, mechanism).problem())
    sizing = (
        least_extra_nodes(needed, target, rates, scheme="on-prem", extra_max=extra_max)
        if mechanism == "ara"
        else least_pool(needed, target, rates, pool_max=extra_max)
    )
    bought = (solution.path[0].needed, solution.path[0].extra) if solution.path else (needed, None)
    assert bought == (needed, sizing.extra)


def test_a_pool_is_found_where_the_next_one_is_hardly_better() -> None:
    """Pools of 19 and 20 are within the models' error of a pool without end."""
    rates = FailureRates()
    target = 0.9999985730472473
    solution = solve(_on_premises(3, rates, target, 40, "pf").problem())
    sizing = least_pool(3, target, rates)
    assert (solution.path[0].needed, solution.path[0].extra) == (3, sizing.extra)
    text = sizing.reason
    assert text.split()[text.split().index("reach") + 1] != text.split()[-3], text


@examples(200)
@given(rates(), st.sampled_from(["cloud", "on-prem"]),
       st.sampled_from([0.99, 0.9999, 1 - 1e-6, 1 - 1e-8, 1 - 1e-10]), st.sampled_from(DEGRADED),
       st.integers(2, 7))  # fmt: skip
def test_no_fleet_that_could_be_built_is_cheaper(
    rates: FailureRates, scheme: str, target: float, degraded: Degraded | None, max_nodes: int
) -> None:
    book = PriceBook("2026-01-01", "drawn", {"us-east-1": (
        Instance("small", 1.0, 8.0, 0.05, usd_per_month_off=10.0),
        Instance("large", 2.0, 8.0, 0.09, usd_per_month_off=20.0),
    )})  # fmt: skip
    case = _case(rates, target, max_nodes, scheme=scheme, degraded=degraded, book=book,
                 types=None, busy_s=0.005)  # fmt: skip
    solution = solve(case.problem())
    costs = _costs_of_all_fleets(case, max_nodes)
    assert solution.usd_per_month == (pytest.approx(min(costs)) if costs else None)


def _costs_of_all_fleets(case: Case, max_nodes: int) -> list[float]:
    """List USD a month of each fleet that keeps target, load and degraded condition."""
    costs, degraded = [], case.slo.degraded
    down, limping = (degraded.nodes_down, degraded.limping) if degraded is not None else (0, 0)
    for machine, needed in itertools.product(case.book.instances(case.region), range(1, 8)):
        for mechanism, extra in itertools.product(("ara", "pf"), range(max_nodes - needed + 1)):
            active = needed + (extra if mechanism == "ara" else 0)
            serving = min(needed, active - down)
            capacity = serving - 0.5 * limping
            if serving < 1 or min(capacity, needed) * machine.vcpus <= 0.5:
                continue
            if case.scheme == "cloud" and mechanism == "pf" and extra:
                continue  # bought when a node crashes, not before
            prediction = availability(
                needed, extra, case.rates, mechanism=mechanism, scheme=case.scheme
            )
            if prediction.unavailability_most <= 1.0 - (case.slo.availability or 0.0):
                extra_usd = usd_when_off(machine) if mechanism == "pf" else machine.usd_per_month
                costs.append(needed * machine.usd_per_month + extra * extra_usd)
    return costs


def test_a_target_that_the_models_cannot_vouch_for_is_refused() -> None:
    with pytest.raises(InputError, match="tell nothing apart"):
        slo_from({"availability": 1 - 1e-13})
    with pytest.raises(InputError, match="tell nothing apart"):
        least_extra_nodes(10, 1 - 1e-13, FailureRates(), scheme="cloud")


@pytest.mark.parametrize("scheme", ["cloud", "on-prem"])
def test_a_plan_keeps_its_target_whatever_the_error_of_the_models(scheme: str) -> None:
    rates = FailureRates(repair_s=86_400.0)
    solution = solve(_case(rates, 1 - 2e-12, 20, scheme=scheme, busy_s=0.01).problem())
    for option in solution.path:
        prediction = availability(
            option.needed, option.extra, rates, mechanism=option.mechanism, scheme=scheme
        )
        assert prediction.unavailability + prediction.error_bound <= 2e-12


def test_extra_nodes_end_where_nothing_can_be_said_to_be_better() -> None:
    predictions = list(sizes(1, 100, FailureRates(), mechanism="ara", scheme="cloud"))
    assert len(predictions) < 5
    assert predictions[-1].unavailability_most == U_FLOOR
    with_spares = list(sizes(1, 100, FailureRates(), mechanism="ara", scheme="cloud", tried=9))
    assert len(with_spares) == 10, "as many as a degraded tier has to spare, all the same"


@pytest.mark.parametrize(
    ("lost", "text"),
    [(4.75e-6, "0.99999525"), (2.9e-14, "0.999999999999"), (1e-9, "0.999999999"), (1.0, "0")],
)  # fmt: skip
def test_an_availability_is_never_rounded_up(lost: float, text: str) -> None:
    assert availability_text(lost) == text
