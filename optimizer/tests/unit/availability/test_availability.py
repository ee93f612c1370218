"""Availability against 50-digit references, dense chains and every state; domains; the command."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from core.errors import InputError
from core.units import YEAR_S
from optimizer.availability import (
    FailureRates,
    Level,
    active_route_anywhere,
    availability,
    data_lost,
    least_extra_nodes,
    least_pool,
    lit_law,
    passive_failover,
    passive_failover_by_pool,
    placements,
    sizes_at,
    writes_lost,
)
from optimizer.availability.placement import PLACEMENTS_MAX, Placement
from optimizer.tests.command_line import json_of, output_of
from optimizer.tests.domains_by_hand import (
    domains_of,
    exact_active,
    patterns,
    simulated_pool,
    spread_unavailability,
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
    prediction = passive_failover(needed, pool, FailureRates())
    assert abs(prediction.availability - expected) <= prediction.error_bound + 1e-15
    assert prediction.error_bound < 1e-9


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
    prediction = active_route_anywhere(1, 0, FailureRates(2.0), scheme="on-prem")
    assert prediction.availability == pytest.approx((1 - math.exp(-2)) / 2, abs=1e-12)


def test_the_least_size_is_certified_by_one_fewer_failing() -> None:
    sizing = least_pool(100, 0.99, FailureRates())
    assert sizing.one_fewer.availability < 0.99 <= sizing.reached.availability
    smaller = passive_failover(100, sizing.extra - 1, FailureRates())
    assert smaller.availability == pytest.approx(sizing.one_fewer.availability, abs=1e-10)


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


def test_a_finite_pool_in_the_cloud_is_refused() -> None:
    with pytest.raises(InputError, match="unlimited"):
        passive_failover(10, 3, FailureRates(), scheme="cloud")


Move = tuple[tuple[int, ...], tuple[int, ...], float]


def share_of_year(
    moves: list[Move], start: tuple[int, ...], counts: Callable[[tuple[int, ...]], bool]
) -> float:
    """The expected share of a year in states that count, by the exponential of the whole chain."""
    states = sorted({state for a, b, _ in moves for state in (a, b)})
    index = {state: number for number, state in enumerate(states)}
    size = len(states)
    matrix = np.zeros((size + 1, size + 1))
    for a, b, rate in moves:
        matrix[index[a], index[b]] += rate
        matrix[index[a], index[a]] -= rate
    for state in states:
        matrix[index[state], size] = float(counts(state))
    return float(expm(matrix)[index[start], size])


def with_primary(nodes: int, crash: float, joins: float, promotes: float) -> Iterator[Move]:
    """Yield the moves of the state (machines down, 1 while one is primary); one joins at a time."""
    for down in range(nodes + 1):
        up = nodes - down
        for primary in (0, 1):
            if primary and not up:
                continue
            if primary:
                yield (down, 1), (down + 1, 0), crash
            if up - primary:
                yield (down, primary), (down + 1, primary), crash * (up - primary)
            if down:
                yield (down, primary), (down - 1, primary), joins
            if not primary and up:
                yield (down, 0), (down, 1), promotes


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("promotes_h", [0.1, 2.0, 20.0])
def test_too_few_nodes_and_no_primary_together_bound_the_chain_of_both(
    extra: int, promotes_h: float
) -> None:
    needed, crash, joins_h = 2, 6.0, 3.0
    per_year = YEAR_S / 3600.0
    moves = list(with_primary(needed + extra, crash, per_year / joins_h, per_year / promotes_h))
    exact = share_of_year(moves, (0, 1), lambda s: s[0] > extra or not s[1])
    rates = FailureRates(crash_per_year=crash, failover_s=joins_h * 3600.0)
    nodes = active_route_anywhere(needed, extra, rates, scheme="cloud").unavailability
    bound = nodes + writes_lost(crash, promotes_h * 3600.0)
    assert exact <= bound
    assert bound <= exact * (1.6 if extra == 0 else 1.03)


def test_no_node_count_makes_up_for_a_primary_that_is_replaced_slowly() -> None:
    crash, promotes_s, per_year = 4.0, 600.0, YEAR_S / 60.0
    shares = [
        share_of_year(
            list(with_primary(nodes, crash, per_year, YEAR_S / promotes_s)),
            (0, 1),
            lambda s: s[0] > 0 and s[1] == 0,
        )
        for nodes in (2, 4, 8)
    ]
    lone_share = share_of_year(
        list(with_primary(8, crash, per_year, YEAR_S / promotes_s)), (0, 1), lambda s: not s[1]
    )
    assert lone_share == pytest.approx(writes_lost(crash, promotes_s), rel=2e-3)
    assert shares == sorted(shares)


def copies(nodes: int, crash: float, joins: float) -> Iterator[Move]:
    """Yield the moves of the number of machines down; with no machine up, none joins again."""
    for down in range(nodes):
        yield (down,), (down + 1,), crash * (nodes - down)
        if down:
            yield (down,), (down - 1,), joins


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("joins_h", [1.0, 24.0, 300.0])
def test_data_lost_bounds_the_chain_that_never_comes_back(nodes: int, joins_h: float) -> None:
    crash = 2.0
    moves = list(copies(nodes, crash, YEAR_S / 3600.0 / joins_h))
    exact = share_of_year(moves, (0,), lambda s: s[0] == nodes)
    bound = data_lost(nodes, crash, joins_h * 3600.0)
    assert exact <= bound * (1.0 + 1e-9) + 1e-13
    if nodes > 1 and joins_h == 1.0:
        assert bound == pytest.approx(exact, rel=0.05, abs=1e-12)


def test_each_copy_takes_three_orders_off() -> None:
    losses = [data_lost(nodes, 1.0, 3600.0) for nodes in range(1, 6)]
    assert losses[0] == pytest.approx(0.5)
    assert all(b < 1e-3 * a for a, b in itertools.pairwise(losses))


@pytest.mark.parametrize(("lost", "takes_s"), [(0.0, 1.0), (1.0, -1.0)])
def test_a_primary_without_sense_is_refused(lost: float, takes_s: float) -> None:
    with pytest.raises(InputError):
        writes_lost(lost, takes_s)


@pytest.mark.parametrize(("machines", "joins_s"), [(0, 1.0), (2, 0.0)])
def test_copies_without_sense_are_refused(machines: int, joins_s: float) -> None:
    with pytest.raises(InputError):
        data_lost(machines, 1.0, joins_s)


ZONES = Level("zone", 3, 2.0, 14_400.0)
TWO = Level("zone", 2, 4.0, 40_000.0)
HOSTS = Level("host", 2, 9.0, 90_000.0)


def _canonical(levels: Sequence[Level], leaves: Sequence[int]) -> Placement:
    """Return the placement, as a sorted tree, of `leaves[i]` machines on the i-th last domain."""
    if len(levels) == 1:
        return tuple(sorted((n for n in leaves if n), reverse=True))
    inside = len(leaves) // levels[0].count
    parts = [leaves[i : i + inside] for i in range(0, len(leaves), inside)]
    children = [_canonical(levels[1:], part) for part in parts]
    return tuple(sorted((p for p in children if p), key=repr))


@pytest.mark.parametrize("levels", [(ZONES,), (TWO, HOSTS), (TWO, HOSTS, Level("slot", 2, 1, 1))])
@pytest.mark.parametrize("machines", [1, 2, 5])
def test_every_placement_is_there_once(levels: tuple[Level, ...], machines: int) -> None:
    leaves = 1
    for level in levels:
        leaves *= level.count
    expected = {
        _canonical(levels, [where.count(leaf) for leaf in range(leaves)])
        for where in itertools.product(range(leaves), repeat=machines)
    }

    def same(placement: Any) -> Any:
        if isinstance(placement, int):
            return placement
        children = [same(part) for part in placement]
        numbers = all(isinstance(child, int) for child in children)
        return tuple(sorted(children, reverse=True) if numbers else sorted(children, key=repr))

    listing = placements(levels, machines)
    assert {same(placement) for placement in listing} == expected
    assert len(listing) == len(expected)


def test_a_cap_leaves_the_placements_that_keep_it() -> None:
    uncapped = placements((ZONES, HOSTS), 5)
    expected = [p for p in uncapped if sizes_at(p, 0)[0] <= 3 and sizes_at(p, 1)[0] <= 1]
    assert sorted(placements((ZONES, HOSTS), 5, (3, 1))) == sorted(expected)
    assert placements((ZONES, HOSTS), 7, (9, 1)) == ()


def test_too_many_placements_are_refused_and_not_sampled() -> None:
    with pytest.raises(InputError, match=f"{PLACEMENTS_MAX:,} ways"):
        placements((Level("zone", 9, 1, 1), Level("host", 40, 1, 1)), 40)


@pytest.mark.parametrize("levels", [(ZONES,), (TWO, HOSTS)])
def test_the_law_of_lit_machines_is_the_sum_over_all_patterns(levels: tuple[Level, ...]) -> None:
    for placement in placements(levels, 4):
        expected = [0.0] * 5
        for chance, dark in patterns(domains_of(levels, placement)):
            expected[4 - len(dark)] += chance
        assert lit_law(levels, placement) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("scheme", "repair_s"), [("cloud", None), ("on-prem", 400_000.0),
                                                  ("on-prem", None)])  # fmt: skip
@pytest.mark.parametrize("levels", [(TWO,), (TWO, HOSTS)])
def test_active_machines_are_as_the_chain_of_all_domains_and_machines(
    scheme: str, repair_s: float | None, levels: tuple[Level, ...]
) -> None:
    rates = FailureRates(crash_per_year=6.0, failover_s=20_000.0, repair_s=repair_s)
    for placement in placements(levels, 3):
        for needed in (1, 2, 3):
            unavailability = spread_unavailability(
                needed, 3 - needed, rates, levels, placement, mechanism="ara", scheme=scheme
            )
            exact = exact_active(needed, 3, rates, levels, placement, scheme)
            assert unavailability == pytest.approx(exact, rel=1e-7), (placement, needed)


@examples(25)
@given(st.integers(1, 3), st.integers(0, 2), st.floats(0.5, 20.0), st.floats(0.1, 10.0),
       st.sampled_from(["ara", "pf"]), st.sampled_from(["cloud", "on-prem"]))  # fmt: skip
def test_domains_take_something_and_never_more_than_all_that_they_hold(
    needed: int, extra: int, crashes: float, failures: float, mechanism: str, scheme: str
) -> None:
    if (mechanism, scheme) == ("pf", "cloud"):
        extra = 0
    rates = FailureRates(crash_per_year=crashes, repair_s=90_000.0)
    level = Level("zone", 2, failures, 20_000.0)
    no_domains = availability(needed, extra, rates, mechanism=mechanism, scheme=scheme)
    for placement in placements((level,), needed + extra):
        unavailability = spread_unavailability(
            needed, extra, rates, (level,), placement, mechanism=mechanism, scheme=scheme
        )
        assert (
            unavailability
            >= no_domains.unavailability * (1 - level.dark) ** 2 - no_domains.error_bound
        )
        assert unavailability <= no_domains.unavailability_most + 2 * level.dark + 1e-4


def test_domains_that_hardly_fail_leave_the_models_as_they_are() -> None:
    rates, level = FailureRates(repair_s=90_000.0), Level("zone", 2, 1e-9, 1.0)
    for mechanism, scheme in (("ara", "cloud"), ("ara", "on-prem"), ("pf", "on-prem")):
        no_domains = availability(2, 1, rates, mechanism=mechanism, scheme=scheme)
        unavailability = spread_unavailability(
            2, 1, rates, (level,), (2, 1), mechanism=mechanism, scheme=scheme
        )
        assert unavailability == pytest.approx(no_domains.unavailability, rel=1e-5, abs=2e-12)


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
    unavailability = spread_unavailability(
        needed, pool, rates, levels, placement, mechanism="pf", scheme="on-prem"
    )
    assert mean - 4.5 * error <= unavailability
    assert unavailability <= 2.0 * (mean + 4.5 * error)


def test_limping_machines_in_domains_are_refused() -> None:
    rates = FailureRates(limp_per_year=1.0, limp_recovery_s=60.0)
    with pytest.raises(InputError, match="do not limp"):
        spread_unavailability(1, 0, rates, (ZONES,), (1,), mechanism="ara", scheme="cloud")


PF = ["--mechanism", "pf", "--scheme", "on-prem", "--nodes", "10", "--crash-per-year", "1"]

CLOUD_PF = ["--mechanism", "pf", "--scheme", "cloud", "--nodes", "3", "--crash-per-year", "2"]
ARA = ["--mechanism", "ara", "--nodes", "10", "--extra", "1", "--crash-per-year", "1", "--scheme"]


def _json(*arguments: str, code: int = 0) -> Any:
    return json_of("availability", *arguments, code=code)


def test_a_fleet_has_its_availability_error_states_and_time() -> None:
    body = _json(*PF, "--extra", "18")
    assert body["availability"] == pytest.approx(0.99937200122151555, abs=1e-10)
    assert 0 < body["error_bound"] < 1e-9
    assert body["states"] > 1
    assert body["seconds"] > 0
    assert body["steady_state"] is None


def test_a_target_is_answered_by_the_least_size_and_the_one_below() -> None:
    body = _json(*PF, "--target", "0.999")
    assert body["extra"] == 18
    assert body["one_fewer"] < 0.999 <= body["availability"]
    assert "17 reach 0.99865 < 0.999" in body["reason"]


def test_a_target_out_of_reach_has_no_size_and_says_why() -> None:
    body = _json(*PF[:-1], "2", "--failover-s", "1800", "--target", "0.999", code=1)
    assert body["extra"] is None
    assert "infeasible at any size: fail-over alone costs 10 h against 8.76 h" in body["reason"]


def test_where_no_size_reaches_the_target_nothing_is_said_or_drawn_of_an_empty_pool(
    tmp_path: Path,
) -> None:
    slow = [*PF[:-1], "2", "--failover-s", "1800", "--repair-s", "86400", "--target", "0.999"]
    assert _json(*slow, code=1)["notes"] == []
    figure = tmp_path / "course.svg"
    body = _json(*slow, "--course", "10", "--figure", str(figure), code=1)
    assert body["extra"] is None
    assert len(body["notes"]) == 1
    assert "course" not in body
    assert not figure.exists()


def test_the_clouds_pool_has_no_end() -> None:
    assert _json(*CLOUD_PF)["availability"] > 0.999
    assert _json(*CLOUD_PF, "--target", "0.999")["extra"] == 0


def test_an_empty_pool_takes_no_repaired_node_and_says_so() -> None:
    (note,) = _json(*PF, "--extra", "0", "--repair-s", "86400")["notes"]
    assert "Fig. 1a" in note
    assert not _json(*PF, "--extra", "1", "--repair-s", "86400")["notes"]
    assert "Fig. 1a" in output_of("availability", *PF, "--extra", "0", "--repair-s", "86400")


def test_observed_crashes_give_an_interval_and_a_size_at_confidence(tmp_path: Path) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text("[rates]\ncrash_per_year = { count = 3, node_years = 2.1 }\nrepair_s = 9e4\n")
    words = [*PF[:-2], "--rates", str(rates), "--confidence", "0.9"]
    interval = _json(*words, "--extra", "2")["interval"]
    assert interval["low"] < interval["median"] < interval["high"]
    sizing = _json(*words, "--target", "0.999")
    assert sizing["at_confidence"]["extra"] >= sizing["extra"]


def test_the_time_course_is_printed_and_drawn(tmp_path: Path) -> None:
    figure = tmp_path / "course.svg"
    body = _json(*PF, "--extra", "2", "--course", "10", "--figure", str(figure))
    assert len(body["course"]) == 11
    assert body["course"][0] == [0.0, 1.0]
    assert "Probability that enough nodes are up" in figure.read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*PF, "--extra", "1", "--target", "0.9"], "--extra"),
        (PF, "--extra"),
        ([*PF, "--target", "1"], "--target"),
        ([*PF, "--extra", "-1"], "--extra"),
        ([*PF, "--extra", "1", "--nodes", "0"], "--nodes"),
        ([*PF[:-1], "-2", "--extra", "1"], "--crash-per-year"),
        ([*PF, "--extra", "1", "--failover-s", "0"], "--failover-s"),
        ([*PF, "--extra", "1", "--horizon-s", "nan"], "--horizon-s"),
        ([*PF, "--extra", "1", "--rates", "/dev/null/rates"], "/dev/null/rates"),
        ([*PF[:-2], "--extra", "1"], "--crash-per-year"),
        ([*ARA, "cloud", "--repair-s", "9"], "--repair-s"),
        ([*ARA, "cloud", "--standby-fraction", "0.5"], "--standby-fraction"),
        ([*ARA, "cloud", "--common-cause-nodes", "3"], "--common-cause-nodes"),
        ([*ARA, "cloud", "--common-cause-nodes", "3", "--common-cause", "0"], "--common-cause-nod"),
        ([*ARA, "on-prem", "--repair-crew", "3"], "--repair-crew"),
        ([*ARA, "on-prem", "--failover-s", "3"], "--failover-s"),
        ([*ARA, "cloud", "--limp-capacity", "0.5"], "--limp-capacity"),
        ([*ARA, "cloud", "--limp-recovery-s", "5"], "--limp-recovery-s"),
        ([*ARA, "cloud", "--confidence", "0.9"], "--confidence"),
        ([*ARA, "cloud", "--seed", "2"], "--seed"),
        ([*ARA, "cloud", "--course", "1000000000"], "--course"),
        ([*ARA, "cloud", "--figure", "here"], "--figure"),
        ([*CLOUD_PF, "--extra", "2"], "--extra"),
        ([*PF, "--target", "0.9999999999999"], "--target"),
    ],
)
def test_bad_input_is_named(arguments: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        output_of("availability", *arguments)
