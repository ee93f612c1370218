"""sPARE's closed forms against enumeration and their own limits."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InputError
from optimizer.replication import (
    TierLoad,
    collision_probability,
    feasible_replicas,
    least_tokens,
    lookup_probability,
    processing_times_s,
    round_robin_capacity_per_s,
    server_utilisation,
    tad_capacity_per_s,
    token_utilisation,
)


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=30, deadline=None)
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


def test_processing_time_shares_cores_by_head_count() -> None:
    """On one core: alone for 1 s, two together for 2 s (1 s each), the second alone for 1 s."""
    assert processing_times_s([0.0, 1.0], [3.0, 4.0], 1.0) == pytest.approx([2.0, 2.0])
    assert processing_times_s([0.0, 1.0], [3.0, 4.0], 2.0) == pytest.approx([3.0, 3.0])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 20)), min_size=1, max_size=20),
    st.floats(0.5, 4.0),
)
def test_processing_times_add_up_to_the_work_that_the_cores_could_do(
    stays: list[tuple[float, float]], cores: float
) -> None:
    arrivals = [a for a, _ in stays]
    departures = [a + s for a, s in stays]
    found = processing_times_s(arrivals, departures, cores)
    edges = sorted({*arrivals, *departures})
    capacity = 0.0
    for start, end in itertools.pairwise(edges):
        present = sum(a <= start and d >= end for a, d in zip(arrivals, departures, strict=True))
        capacity += (end - start) * min(present, cores * (present > 0))
    assert sum(found) == pytest.approx(capacity, rel=1e-6, abs=1e-6)


def test_a_departure_before_its_arrival_is_refused() -> None:
    with pytest.raises(InputError, match="departures_s"):
        processing_times_s([1.0], [0.5], 1.0)
