"""sPARE's closed forms against enumeration and their own limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.replication import (
    TierLoad,
    collision_probabilities,
    collision_probability,
    feasible_replicas,
    least_tokens,
    lookup_probability,
    round_robin_capacity_per_s,
    server_utilisation,
    tad_capacity_per_s,
    token_utilisation,
)
from random_tests import examples


@examples(30)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))
def test_collisions_agree_with_counting_all_placements(
    servers: int, upstream: int, replicas: int
) -> None:
    if replicas > servers:
        with pytest.raises(InputError, match="replicas"):
            collision_probability(servers, upstream, replicas)
        return
    choices = list(itertools.combinations(range(servers), replicas))
    placements = list(itertools.product(choices, repeat=upstream))
    apart = sum(len(set().union(*p)) == upstream * replicas for p in placements)
    expected = 1 - apart / len(placements)
    assert collision_probability(servers, upstream, replicas) == pytest.approx(expected, abs=1e-12)


def test_collision_of_the_papers_mediawiki_fleet() -> None:
    """12 database servers, (2, 2): 1 - C(10, 2) / C(12, 2) = 1 - 45 / 66."""
    assert collision_probability(12, 2, 2) == pytest.approx(21 / 66)
    assert collision_probability(3, 2, 2) == 1.0  # four copies cannot be apart on three servers
    assert collision_probability(3, 1, 3) == 0.0


@examples(30)
@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5))
def test_lookups_agree_with_counting(fast: int, slow: int, lookups: int) -> None:
    if lookups > fast + slow:
        with pytest.raises(InputError, match="lookups"):
            lookup_probability(fast, slow, lookups)
        return
    draws = list(itertools.combinations(range(fast + slow), lookups))
    hit = sum(any(server < fast for server in draw) for draw in draws) / len(draws)
    assert lookup_probability(fast, slow, lookups) == pytest.approx(hit, abs=1e-12)


def test_least_tokens_is_the_first_stable_number() -> None:
    tokens = least_tokens(connection_per_s=40.0, replicas_max=2, servers=4, token_hold_s=0.1)
    assert tokens == 3  # Eq. 6 is strict: 40 * 2 * 0.1 / 4 = 2 is not enough

    def used(c: int) -> float:
        load = TierLoad(4, 1.0, 0.0, 0.1, 40.0, 0.1, tokens_per_server=c)
        return token_utilisation(load, 2)

    assert used(tokens) < 1 <= used(tokens - 1)


def test_tad_sustains_what_round_robin_cannot() -> None:
    assert tad_capacity_per_s(2, 10.0, 0.5, 0.4) == pytest.approx(10 * (1 + 0.4))
    assert round_robin_capacity_per_s(2, 10.0, 0.5, 0.4) == pytest.approx(2 * 10 * 0.4)
    assert round_robin_capacity_per_s(2, 10.0, 0.0, 0.4) == pytest.approx(20)


def test_the_feasible_set_stops_where_the_back_end_is_full_or_copies_collide() -> None:
    web = TierLoad(servers=4, cores=1.0, request_per_s=5.0, processing_s=0.1)
    db = TierLoad(servers=8, cores=1.0, request_per_s=100.0, processing_s=0.01)
    found = set(feasible_replicas([web, db], collision_max=0.5))
    assert (2, 2) in found
    assert (3, 3) not in found  # 100 * 9 * 0.01 = 9 cores of 8
    assert (2, 3) not in found  # collides: 1 - C(5, 3) / C(8, 3) = 0.82
    assert (1, 7) in found
    expected = {
        (a, b)
        for a in range(1, 5)
        for b in range(1, 9)
        if server_utilisation(web, a) < 1
        and server_utilisation(db, b, a) < 1
        and collision_probability(8, a, b) <= 0.5
    }
    assert found == expected


@examples(60)
@given(st.integers(1, 100_000), st.integers(2, 400), st.integers(1, 400))
def test_collisions_of_large_tiers_are_exact_to_rounding(
    servers: int, upstream: int, replicas: int
) -> None:
    """Against exact integers; also where the probability is tiny."""
    replicas = min(replicas, servers)
    found = collision_probability(servers, upstream, replicas)
    if upstream * replicas > servers:
        assert found == 1.0
        return
    apart = math.prod(math.comb(servers - k * replicas, replicas) for k in range(upstream))
    exact = 1 - Fraction(apart, math.comb(servers, replicas) ** upstream)
    assert found == pytest.approx(float(exact), rel=1e-13, abs=0)


def test_huge_tiers_neither_overflow_nor_cancel() -> None:
    """1 - C(M - 1, 1) / C(M, 1) = 1 / M; half of a million look-ups find one of two fast ones."""
    assert collision_probability(10**12, 2, 1) == pytest.approx(1e-12, rel=1e-14, abs=0)
    assert collision_probability(10**6, 1000, 500) == 1.0  # 1 - e^-250 and less
    missed = (500_000 / 10**6) * (499_999 / 999_999)
    assert lookup_probability(2, 10**6 - 2, 500_000) == pytest.approx(1 - missed, rel=1e-13)
    assert lookup_probability(1, 10**9, 1) == pytest.approx(1 / (10**9 + 1), rel=1e-13, abs=0)


def test_collisions_are_certain_only_where_copies_cannot_be_placed_apart() -> None:
    """The paper's text says certain at a r = M; its Eq. 1 leaves 1 / C(4, 2) apart there."""
    assert collision_probability(4, 2, 2) == pytest.approx(1 - 1 / 6)
    assert collision_probability(4, 3, 2) == 1.0


def test_each_tier_below_the_front_sees_the_product_of_the_replicas_above_it() -> None:
    found = collision_probabilities([36, 12, 30], [2, 1, 3])
    assert found == (collision_probability(12, 2, 1), collision_probability(30, 2, 3))
    assert collision_probabilities([5], [3]) == ()


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: collision_probability(3, 1, 4), "replicas"),
        (lambda: collision_probabilities([5, 3], [1, 4]), "replicas of tier 2"),
        (lambda: collision_probabilities([5, 3], [1]), "replicas"),
        (lambda: server_utilisation(TierLoad(3, 1, 1, 1, name="db"), 4), "db: replicas"),
        (lambda: least_tokens(1.0, 4, 3, 1.0), "replicas_max"),
        (lambda: least_tokens(math.nan, 1, 3, 1.0), "connection_per_s"),
        (lambda: TierLoad(0, 1, 1, 1, name="db"), "db: servers"),
        (lambda: TierLoad(1, 1, -1.0, 1, name="db"), "db: request_per_s"),
        (lambda: TierLoad(1, 1, 1, math.nan, name="db"), "db: processing_s"),
        (lambda: TierLoad(1, 1, 1, 1, tokens_per_server=0, name="db"), "db: tokens_per_server"),
        (lambda: tad_capacity_per_s(0, 1.0, 0.1, 0.5), "servers"),
        (lambda: round_robin_capacity_per_s(2, 1.0, 0.1, 0.0), "gamma"),
        (lambda: feasible_replicas([], 0.5), "tiers"),
        (lambda: feasible_replicas([TierLoad(1, 1, 1, 0.1)], 1.5), "collision_max"),
    ],
)
def test_input_that_cannot_be_is_refused_by_name(call: Callable[[], object], place: str) -> None:
    with pytest.raises(InputError, match=place):
        call()


def test_least_tokens_does_not_lose_one_to_rounding() -> None:
    """3 * 0.1 * 10 / 1 is 3 on paper and 3.0000000000000004 here; 1.1 * 3 / 3.3 just below 1."""
    assert least_tokens(0.3, 1, 1, 10.0) == 4
    assert least_tokens(1.1, 3, 3, 1 / 1.1) == 2


def test_tokens_narrow_the_feasible_set_where_tad_is_used() -> None:
    db = TierLoad(8, 1.0, 10.0, 0.01, connection_per_s=10.0, token_hold_s=0.5)
    assert feasible_replicas([db], 1.0) == [(r,) for r in range(1, 9)]
    scarce = replace(db, tokens_per_server=2)  # 10 r 0.5 < 16: r <= 3
    assert feasible_replicas([scarce], 1.0) == [(1,), (2,), (3,)]


def test_an_unstable_service_has_no_feasible_replicas() -> None:
    assert feasible_replicas([TierLoad(2, 1.0, 20.0, 0.1)], 1.0) == []


@examples(60)
@given(
    st.lists(
        st.builds(
            TierLoad,
            servers=st.integers(1, 6),
            cores=st.floats(0.5, 3.0),
            request_per_s=st.floats(0.0, 30.0),
            processing_s=st.floats(0.01, 0.3),
            connection_per_s=st.floats(0.0, 10.0),
            token_hold_s=st.floats(0.0, 1.0),
            tokens_per_server=st.none() | st.integers(1, 5),
        ),
        min_size=1,
        max_size=3,
    ),
    st.floats(0.0, 1.0),
)
def test_the_pruned_feasible_set_is_that_of_trying_all(
    tiers: list[TierLoad], collision_max: float
) -> None:
    def fits(r: tuple[int, ...]) -> bool:
        met = collision_probabilities([t.servers for t in tiers], r)
        ups = [math.prod(r[:i]) for i in range(len(r))]
        return max(met, default=0.0) <= collision_max and all(
            max(server_utilisation(t, n, a), token_utilisation(t, n, a)) < 1
            for t, n, a in zip(tiers, r, ups, strict=True)
        )

    every = itertools.product(*(range(1, t.servers + 1) for t in tiers))
    assert feasible_replicas(tiers, collision_max) == [r for r in every if fits(r)]


def test_four_tiers_of_sixty_servers_need_no_walk_through_all_13_million() -> None:
    tier = TierLoad(servers=60, cores=2.0, request_per_s=10.0, processing_s=0.01)
    found = feasible_replicas([tier] * 4, collision_max=0.5)
    assert (1, 1, 1, 60) in found
    assert (1, 1, 2, 6) in found  # 1 - C(54, 6) / C(60, 6) = 0.48
    assert (1, 1, 2, 7) not in found
    assert len(found) < 5000
