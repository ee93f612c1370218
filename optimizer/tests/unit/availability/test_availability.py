"""Availability against 50-digit references and invariants; PCRAFT's tables: test_reproduce."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.availability import (
    HORIZON_S,
    FailureRates,
    active_route_anywhere,
    least_extra_nodes,
    least_pool,
    passive_failover,
    passive_failover_by_pool,
    steady_state,
)
from random_tests import examples

_PUBLISHED = Path(__file__).parents[3] / "reproduce/data/pcraft.json"
PCRAFT: dict[str, Any] = json.loads(_PUBLISHED.read_text())


@pytest.mark.parametrize(
    ("needed", "pool", "expected"), PCRAFT["laplace_no_repair_1_per_year_15_s"]
)
def test_passive_failover_agrees_with_high_precision_laplace_inversion(
    needed: int, pool: int, expected: float
) -> None:
    found = passive_failover(needed, pool, FailureRates())
    assert abs(found.availability - expected) <= found.error_bound + 1e-15
    assert found.error_bound < 1e-9


@examples(25)
@given(st.integers(1, 30), st.floats(0.1, 6.0), st.floats(5.0, 3_600.0))
def test_a_larger_pool_is_never_worse_and_never_beats_an_unlimited_one(
    needed: int, crash: float, failover_s: float
) -> None:
    rates = FailureRates(crash, failover_s)
    table = [a.availability for a in passive_failover_by_pool(needed, 25, rates)]
    unlimited = passive_failover(needed, None, rates, scheme="cloud").availability
    assert all(a <= b + 1e-10 for a, b in itertools.pairwise(table))
    assert table[-1] <= unlimited + 1e-10


@examples(25)
@given(st.integers(1, 12), st.floats(0.1, 6.0), st.sampled_from(["cloud", "on-prem"]))
def test_an_extra_active_node_is_never_worse(needed: int, crash: float, scheme: str) -> None:
    values = [
        active_route_anywhere(needed, e, FailureRates(crash, 600.0), scheme=scheme).availability
        for e in range(6)
    ]
    assert all(a <= b + 1e-10 for a, b in itertools.pairwise(values))


def test_without_repair_one_node_is_up_for_the_mean_of_its_life() -> None:
    found = active_route_anywhere(1, 0, FailureRates(2.0), scheme="on-prem")
    assert found.availability == pytest.approx((1 - math.exp(-2)) / 2, abs=1e-12)


@pytest.mark.parametrize("case", [("ara", "cloud", 1), ("pf", "cloud", 0), ("pf", "on-prem", 2)])
def test_a_long_horizon_reaches_the_steady_state(case: tuple[str, str, int]) -> None:
    mechanism, scheme, extra = case
    rates = FailureRates(20.0, 3_600.0, 36_000.0)
    limit = steady_state(5, extra, rates, mechanism=mechanism, scheme=scheme)
    horizon_s = 200 * HORIZON_S
    if mechanism == "ara":
        found = active_route_anywhere(5, extra, rates, scheme=scheme, horizon_s=horizon_s)
    else:
        pool = None if scheme == "cloud" else extra
        found = passive_failover(5, pool, rates, scheme=scheme, horizon_s=horizon_s)
    assert limit is not None
    assert found.availability == pytest.approx(limit, abs=1e-6)


def test_there_is_no_steady_state_where_nodes_only_die() -> None:
    assert steady_state(3, 2, FailureRates(), mechanism="pf", scheme="on-prem") is None


def test_the_least_size_is_certified_by_one_fewer_failing() -> None:
    sizing = least_pool(100, 0.99, FailureRates())
    assert sizing.extra is not None
    assert sizing.reached is not None
    assert sizing.one_fewer is not None
    assert sizing.one_fewer.availability < 0.99 <= sizing.reached.availability
    again = passive_failover(100, sizing.extra - 1, FailureRates())
    assert again.availability == pytest.approx(sizing.one_fewer.availability, abs=1e-10)


def test_a_target_that_failover_alone_spends_is_infeasible_at_any_size() -> None:
    sizing = least_pool(10, 0.999, FailureRates(2.0, 1800.0))
    assert sizing.extra is None
    assert "infeasible at any size: fail-over alone costs 10 h against 8.76 h" in sizing.reason


def test_a_bounded_search_says_that_its_bound_is_too_low() -> None:
    sizing = least_extra_nodes(10, 0.999, FailureRates(), scheme="on-prem", extra_max=34)
    assert sizing.extra is None
    assert "34 extra active nodes still cost 9.36 h against 8.76 h" in sizing.reason
    enough = least_extra_nodes(10, 0.999, FailureRates(), scheme="on-prem", extra_max=35)
    assert enough.extra == 35


def test_a_target_that_is_hardly_missed_is_seen_to_be_missed() -> None:
    slow, plain = FailureRates(2.0, 1800.0), FailureRates()
    unlimited = passive_failover(10, None, slow, scheme="cloud").unavailability_most
    bounded = active_route_anywhere(10, 34, plain, scheme="on-prem").unavailability_most
    for sizing in (
        least_pool(10, 1.0 - unlimited * (1.0 - 1e-5), slow),
        least_extra_nodes(10, 1.0 - bounded * (1.0 - 1e-5), plain, scheme="on-prem", extra_max=34),
    ):
        assert sizing.extra is None
        hours = re.search(r"costs? (\S+) h against (\S+) h allowed", sizing.reason)
        assert hours is not None, sizing.reason
        assert float(hours[1]) > float(hours[2])


@pytest.mark.parametrize(
    ("values", "field"),
    [((-1.0, 15.0), "crash_per_year"), ((1.0, 0.0), "failover_s"), ((math.nan, 1.0), "crash")],
)
def test_rates_must_be_positive(values: tuple[float, float], field: str) -> None:
    with pytest.raises(InputError, match=field):
        FailureRates(*values)


def test_a_target_of_one_is_refused() -> None:
    with pytest.raises(InputError, match="target"):
        least_pool(10, 1.0, FailureRates())


def test_a_finite_pool_in_the_cloud_is_refused() -> None:
    with pytest.raises(InputError, match="unlimited"):
        passive_failover(10, 3, FailureRates(), scheme="cloud")
