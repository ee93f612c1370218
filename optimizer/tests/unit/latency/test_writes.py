"""Writes that every server executes: the load by hand, reads copied and writes not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import gamma

from core.errors import UnstableError
from optimizer.latency import PageLatency, Station, TierLatency, mean_of, waits
from optimizer.latency.station import stays
from random_tests import examples

WORK_S, RATE = 0.01, 60.0


def station(write_share: float, servers: int = 2, replicas: int = 1, **rest: Any) -> Station:
    law = TierLatency(WORK_S, 1.0, 1.0, write_share=write_share)
    policy = rest.pop("policy", "round-robin")
    return replace(Station(law, servers, 1.0, replicas, policy, RATE), **rest)


@pytest.mark.parametrize("servers", [1, 2, 5, 100])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_server_is_an_m_m_1_queue_of_its_part_of_the_reads_and_of_all_writes(
    servers: int, share: float
) -> None:
    arrivals = RATE * ((1.0 - share) / servers + share)
    found = stays(station(share, servers)).fast_s
    assert found == pytest.approx(1.0 / (1.0 / WORK_S - arrivals), rel=1e-12)


@pytest.mark.parametrize("policy", ["round-robin", "tad"])
def test_no_number_of_servers_carries_more_writes_than_one_does(policy: str) -> None:
    for servers in (1, 10, 1000):
        with pytest.raises(UnstableError):
            stays(station(1.0, servers, policy=policy, request_per_s=101.0))
    assert stays(station(0.5, 1000, policy=policy, request_per_s=101.0)).fast_s < 0.03


def test_a_limping_server_has_its_writes_whatever_the_policy() -> None:
    def limping(share: float) -> Station:
        return station(share, 4, limping=1, limp_speed=0.25, policy="tad")

    assert stays(limping(0.2)).fast_s > 0.0
    with pytest.raises(UnstableError):
        stays(limping(0.5))  # 0.3 of a whole server, 1.2 of this one


@pytest.mark.parametrize("q", [50, 90, 95, 99])
def test_a_front_tier_mixes_the_first_of_two_reads_and_a_single_write(q: int) -> None:
    share, cv2 = 0.3, 0.5
    one = station(share, 4, replicas=2)
    one = replace(one, tier=replace(one.tier, cv2=cv2))
    rho = RATE * WORK_S * (2 * (1.0 - share) / 4 + share)
    law = gamma(1.0 / cv2, scale=cv2 * WORK_S / (1.0 - rho))

    def beyond(t: float) -> float:
        return float((1.0 - share) * law.sf(t) ** 2 + share * law.sf(t)) - (1.0 - q / 100.0)

    by_hand = brentq(beyond, 0.0, 1.0)
    assert PageLatency(0.5).percentile_s([one], q) == pytest.approx(by_hand, rel=5e-3)


def test_below_the_front_the_means_of_reads_and_writes_add_up() -> None:
    share, visits = 0.25, 8.0
    one = station(share, 4, replicas=2)
    one = replace(one, tier=replace(one.tier, visits=visits))
    rho = RATE * WORK_S * (2 * (1.0 - share) / 4 + share)
    mean = WORK_S / (1.0 - rho)
    by_hand = visits * ((1.0 - share) * mean / 2.0 + share * mean)  # exponential: half of two
    assert float(mean_of(waits(one))[0]) == pytest.approx(by_hand, rel=0.02)


def test_a_share_of_nothing_changes_nothing_and_writes_alone_are_single() -> None:
    page = PageLatency(1.0)
    plain = replace(station(0.0, 4, 2), tier=TierLatency(WORK_S, 1.0, 1.0))
    assert page.percentile_s([station(0.0, 4, 2)], 95) == page.percentile_s([plain], 95)
    alone = station(1.0, 4, replicas=2)
    assert page.percentile_s([alone], 95) == page.percentile_s([replace(alone, replicas=1)], 95)


@examples(40)
@given(
    st.floats(0.0, 1.0),
    st.integers(1, 3),
    st.sampled_from(["round-robin", "tad"]),
    st.floats(0.3, 8.0),
    st.sampled_from([0.0, 0.3]),
)
def test_no_percentile_grows_with_servers_or_cores(
    share: float, replicas: int, policy: str, visits: float, noisy: float
) -> None:
    law = TierLatency(0.02, 1.5, visits, noisy, 0.5, 5.0, share)
    front = Station(TierLatency(0.01, 1.0, 1.0, write_share=share), 6, 2.0, replicas, policy, 20.0)
    page = PageLatency(4.0)
    found = []
    for servers, cores in ((4, 4.0), (5, 4.0), (9, 4.0), (9, 8.0), (40, 8.0)):
        db = Station(law, servers, cores, replicas, policy, 20.0 * visits)
        try:
            found.append([page.percentile_s([front, db], q) for q in (50, 95, 99)])
        except UnstableError:
            found.append([np.inf] * 3)
    for more, fewer in zip(found[1:], found, strict=False):
        assert all(a <= b * (1 + 1e-9) for a, b in zip(more, fewer, strict=True))
