"""Machines in domains that fail as a whole, against every state, every pattern, and chance."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.availability import (
    FailureRates,
    Level,
    availability,
    lit_law,
    placements,
    sizes_at,
    spread_unavailability,
)
from optimizer.availability.placement import PLACEMENTS_MAX, Placement
from optimizer.tests.domains_by_hand import domains_of, exact_active, patterns, simulated_pool
from random_tests import examples

ZONES = Level("zone", 3, 2.0, 14_400.0)
TWO = Level("zone", 2, 4.0, 40_000.0)
HOSTS = Level("host", 2, 9.0, 90_000.0)


def _canonical(levels: Sequence[Level], leaves: Sequence[int]) -> Placement:
    """The placement of so many machines on every last domain, numbered as a tree."""
    if len(levels) == 1:
        return tuple(sorted((n for n in leaves if n), reverse=True))
    inside = len(leaves) // levels[0].count
    parts = [leaves[i : i + inside] for i in range(0, len(leaves), inside)]
    found = [_canonical(levels[1:], part) for part in parts]
    return tuple(sorted((p for p in found if p), key=repr))


@pytest.mark.parametrize("levels", [(ZONES,), (TWO, HOSTS), (TWO, HOSTS, Level("slot", 2, 1, 1))])
@pytest.mark.parametrize("machines", [1, 2, 5])
def test_every_placement_is_there_once(levels: tuple[Level, ...], machines: int) -> None:
    leaves = 1
    for level in levels:
        leaves *= level.count
    wanted = {
        _canonical(levels, [where.count(leaf) for leaf in range(leaves)])
        for where in itertools.product(range(leaves), repeat=machines)
    }

    def same(placement: Any) -> Any:
        if isinstance(placement, int):
            return placement
        inner = [same(one) for one in placement]
        numbers = all(isinstance(one, int) for one in inner)
        return tuple(sorted(inner, reverse=True) if numbers else sorted(inner, key=repr))

    found = placements(levels, machines)
    assert {same(one) for one in found} == wanted
    assert len(found) == len(wanted)


def test_a_cap_leaves_the_placements_that_keep_it() -> None:
    everything = placements((ZONES, HOSTS), 5)
    kept = [p for p in everything if sizes_at(p, 0)[0] <= 3 and sizes_at(p, 1)[0] <= 1]
    assert sorted(placements((ZONES, HOSTS), 5, (3, 1))) == sorted(kept)
    assert placements((ZONES, HOSTS), 7, (9, 1)) == ()


def test_too_many_placements_are_refused_and_not_sampled() -> None:
    with pytest.raises(InputError, match=f"{PLACEMENTS_MAX:,} ways"):
        placements((Level("zone", 9, 1, 1), Level("host", 40, 1, 1)), 40)


@pytest.mark.parametrize("levels", [(ZONES,), (TWO, HOSTS)])
def test_the_law_of_lit_machines_is_the_sum_over_all_patterns(levels: tuple[Level, ...]) -> None:
    for placement in placements(levels, 4):
        wanted = [0.0] * 5
        for chance, dark in patterns(domains_of(levels, placement)):
            wanted[4 - len(dark)] += chance
        assert lit_law(levels, placement) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("scheme", "repair_s"), [("cloud", None), ("on-prem", 400_000.0),
                                                  ("on-prem", None)])  # fmt: skip
@pytest.mark.parametrize("levels", [(TWO,), (TWO, HOSTS)])
def test_active_machines_are_as_the_chain_of_all_domains_and_machines(
    scheme: str, repair_s: float | None, levels: tuple[Level, ...]
) -> None:
    rates = FailureRates(crash_per_year=6.0, failover_s=20_000.0, repair_s=repair_s)
    for placement in placements(levels, 3):
        for needed in (1, 2, 3):
            found = spread_unavailability(
                needed, 3 - needed, rates, levels, placement, mechanism="ara", scheme=scheme
            )
            exact = exact_active(needed, 3, rates, levels, placement, scheme)
            assert found == pytest.approx(exact, rel=1e-7), (placement, needed)


@examples(25)
@given(
    st.integers(1, 3),
    st.integers(0, 2),
    st.floats(0.5, 20.0),
    st.floats(0.1, 10.0),
    st.sampled_from(["ara", "pf"]),
    st.sampled_from(["cloud", "on-prem"]),
)
def test_domains_take_something_and_never_more_than_all_that_they_hold(
    needed: int, extra: int, crashes: float, failures: float, mechanism: str, scheme: str
) -> None:
    if (mechanism, scheme) == ("pf", "cloud"):
        extra = 0
    rates = FailureRates(crash_per_year=crashes, repair_s=90_000.0)
    level = Level("zone", 2, failures, 20_000.0)
    alone = availability(needed, extra, rates, mechanism=mechanism, scheme=scheme)
    for placement in placements((level,), needed + extra):
        found = spread_unavailability(
            needed, extra, rates, (level,), placement, mechanism=mechanism, scheme=scheme
        )
        assert found >= alone.unavailability * (1 - level.dark) ** 2 - alone.error_bound
        assert found <= alone.unavailability_most + 2 * level.dark + 1e-4


def test_domains_that_hardly_fail_leave_the_models_as_they_are() -> None:
    rates, level = FailureRates(repair_s=90_000.0), Level("zone", 2, 1e-9, 1.0)
    for mechanism, scheme in (("ara", "cloud"), ("ara", "on-prem"), ("pf", "on-prem")):
        alone = availability(2, 1, rates, mechanism=mechanism, scheme=scheme)
        found = spread_unavailability(
            2, 1, rates, (level,), (2, 1), mechanism=mechanism, scheme=scheme
        )
        assert found == pytest.approx(alone.unavailability, rel=1e-5, abs=2e-12)


def test_three_and_one_outlast_what_two_and_two_do_not() -> None:
    """The even spread is not always the best: two and two lose both zones' outages."""
    rates, level = FailureRates(), Level("zone", 2, 1.0, 14_400.0)
    even, uneven = (
        spread_unavailability(3, 1, rates, (level,), p, mechanism="ara", scheme="cloud")
        for p in ((2, 2), (3, 1))
    )
    assert uneven == pytest.approx(even / 2, rel=0.01)


@examples(1)
@pytest.mark.parametrize(("needed", "pool", "placement"), [(2, 1, (2, 1)), (3, 2, (2, 2, 1))])
@given(seed=st.integers(0, 2**32))
def test_a_pool_is_no_worse_than_is_said_and_not_much_better(
    needed: int, pool: int, placement: Placement, seed: int
) -> None:
    rates = FailureRates(crash_per_year=4.0, failover_s=9_000.0, repair_s=200_000.0)
    levels = (Level("zone", 3, 6.0, 80_000.0),)
    shares = simulated_pool(needed, pool, rates, levels, placement, random.Random(seed), 150)
    mean = statistics.fmean(shares)
    error = statistics.stdev(shares) / len(shares) ** 0.5
    found = spread_unavailability(
        needed, pool, rates, levels, placement, mechanism="pf", scheme="on-prem"
    )
    assert mean - 4.5 * error <= found
    assert found <= 2.0 * (mean + 4.5 * error)


def test_limping_machines_in_domains_are_refused() -> None:
    rates = FailureRates(limp_per_year=1.0, limp_recovery_s=60.0)
    with pytest.raises(InputError, match="do not limp"):
        spread_unavailability(1, 0, rates, (ZONES,), (1,), mechanism="ara", scheme="cloud")


def test_a_placement_of_other_machines_is_refused() -> None:
    with pytest.raises(InputError, match="3 machines"):
        spread_unavailability(
            2, 1, FailureRates(), (ZONES,), (1, 1), mechanism="ara", scheme="cloud"
        )
