"""The latency model against closed forms, a simulation, and what must be monotone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, UnstableError
from optimizer.latency import PageLatency, Station, TierLatency, mean_s, stays, zero_load_s
from random_tests import examples

QUIET = TierLatency(processing_s=0.05, cv2=1.0, visits=1.0)


def _station(**changes: object) -> Station:
    base = Station(
        QUIET, servers=4, cores=1.0, replicas=1, policy="round-robin", request_per_s=40.0
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_one_core_servers_have_the_mean_of_processor_sharing() -> None:
    """rho = 40 * 0.05 / 4 = 0.5: T / (1 - rho) = 0.1 s, for any law of the work."""
    assert stays(_station()).fast_s == pytest.approx(0.1)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_replicated_exponential_copies_follow_the_closed_form(replicas: int) -> None:
    """No cancelling, random dispatch: T ~ Exp(d (mu - d lambda)), lambda per server at r = 1."""
    station = _station(servers=200, request_per_s=800.0, replicas=replicas)
    rate = replicas * (1 / 0.05 - replicas * 4.0)
    page = PageLatency(2.0)
    for q in (50, 95, 99):
        expected = -math.log(1 - q / 100) / rate
        assert page.percentile_s([station], q) == pytest.approx(expected, rel=0.01)


def test_a_small_share_of_slow_servers_makes_the_tail_and_replication_cuts_it() -> None:
    noisy = replace(QUIET, interference_share=0.1, gamma=0.2, run_s=10.0)
    light = _station(tier=noisy, request_per_s=1.0)
    page = PageLatency(5.0)
    quiet = page.percentile_s([_station(request_per_s=1.0)], 99)
    one = page.percentile_s([light], 99)
    two = page.percentile_s([replace(light, replicas=2)], 99)
    assert one > 2 * quiet
    assert two < one / 2


def test_tad_avoids_slow_servers_that_round_robin_uses() -> None:
    noisy = replace(QUIET, interference_share=0.2, gamma=0.3, run_s=10.0)
    spread = stays(_station(tier=noisy, request_per_s=8.0))
    chosen = stays(_station(tier=noisy, request_per_s=8.0, policy="tad"))
    assert spread.slow_count == pytest.approx((0.8, 0.2))
    assert chosen.slow_count[1] < 0.1  # by speed: 0.2 * 0.3 / 0.86 with many servers
    none = stays(_station(tier=noisy, request_per_s=2.0, policy="tad", replicas=4))
    assert none.slow_count == pytest.approx(
        stays(_station(tier=noisy, replicas=4, request_per_s=2.0)).slow_count
    )


def test_a_page_takes_its_own_time_and_that_of_all_its_queries() -> None:
    query = TierLatency(processing_s=0.004, cv2=1.0, visits=15.0)
    back = Station(query, 3, 1.0, 1, "round-robin", request_per_s=75.0)
    front = _station(request_per_s=5.0)
    expected = stays(front).fast_s + 15 * stays(back).fast_s
    assert mean_s([front, back]) == pytest.approx(expected, rel=1e-9)


def test_a_two_tier_page_agrees_with_a_simulation_of_the_same_assumptions() -> None:
    """Independent draw of the composition: min over two copies of own + 15 queries, slow or not."""
    rng = np.random.default_rng(3)
    web = TierLatency(0.05, 0.5, 1.0, 0.2, 0.4, 10.0)
    db = TierLatency(0.004, 1.0, 15.0, 0.2, 0.4, 10.0)
    front = Station(web, 4, 1.0, 2, "round-robin", 5.0)
    back = Station(db, 6, 1.0, 2, "round-robin", 150.0)
    n = 200_000
    means = {s: np.array([stays(s).fast_s, stays(s).slow_s]) for s in (front, back)}

    def draw(station: Station, size: tuple[int, ...], slow: np.ndarray) -> np.ndarray:
        cv2 = station.tier.cv2
        return np.asarray(rng.gamma(1 / cv2, cv2, size) * means[station][slow.astype(int)])

    total = np.full(n, np.inf)
    for _ in range(2):
        own = draw(front, (n,), rng.random(n) < 0.2)
        slow = rng.random((2, n)) < 0.2
        queries = sum(
            np.minimum(draw(back, (n,), slow[0]), draw(back, (n,), slow[1])) for _ in range(15)
        )
        total = np.minimum(total, own + queries)
    page = PageLatency(2.0)
    for q in (50, 95, 99):
        assert page.percentile_s([front, back], q) == pytest.approx(
            float(np.percentile(total, q)), rel=0.02
        )


@examples(40)
@given(
    servers=st.integers(2, 12),
    cores=st.floats(0.3, 6.0),
    share=st.floats(0.0, 0.5),
    gamma=st.floats(0.1, 1.0),
    load=st.floats(0.05, 0.9),
    replicas=st.integers(1, 2),
    policy=st.sampled_from(["tad", "round-robin"]),
    bigger=st.sampled_from([{"servers": 1}, {"cores": 0.5}]),
)
def test_more_servers_or_cores_are_never_slower(
    servers: int,
    cores: float,
    share: float,
    gamma: float,
    load: float,
    replicas: int,
    policy: str,
    bigger: dict[str, float],
) -> None:
    """The cuts of the optimization rest on this."""
    tier = TierLatency(0.05, 1.0, 1.0, share, gamma, 10.0)
    capacity = servers * cores * (1 - share * (1 - gamma)) / 0.05
    small = Station(tier, servers, cores, replicas, policy, load * capacity / replicas)
    large = replace(
        small,
        servers=servers + int(bigger.get("servers", 0)),
        cores=cores + bigger.get("cores", 0.0),
    )
    page = PageLatency(20.0)
    for q in (95, 99):
        slow, fast = page.percentile_s([small], q), page.percentile_s([large], q)
        assert math.isinf(slow) or fast <= slow * (1 + 1e-9)


def test_an_overloaded_tier_is_refused() -> None:
    with pytest.raises(UnstableError, match="tier load"):
        stays(_station(request_per_s=80.0))


def test_more_replicas_than_servers_are_refused() -> None:
    with pytest.raises(InputError, match="replicas"):
        stays(_station(replicas=5, request_per_s=1.0))


def test_a_coarse_grid_is_within_half_a_per_cent_of_a_fine_one() -> None:
    """Chains of one to six tiers, from pages that fill the horizon to a hundredth of it."""
    middle = TierLatency(0.004, 1.0, 2.0, 0.1, 0.5, 10.0)
    for scale in (1.0, 0.1, 0.01):
        web = TierLatency(0.05 * scale, 1.5, 1.0, 0.2, 0.5, 10.0)
        inner = replace(middle, processing_s=0.004 * scale)
        rates = [5.0 * 4.0**i for i in range(6)]
        chain = [Station(web, 6, 0.5, 2, "tad", rates[0])]
        chain += [Station(inner, 60, 1.0, 2, "round-robin", rate) for rate in rates[1:]]
        for tiers in (1, 2, 6):
            fine = PageLatency(8.0 * scale, points=16384)
            for q in (50, 95, 99):
                found = PageLatency(8.0).percentile_s(chain[:tiers], q)
                assert found == pytest.approx(fine.percentile_s(chain[:tiers], q), rel=0.005)


def test_no_fleet_is_faster_than_the_zero_load_latency() -> None:
    web = TierLatency(0.05, 1.5, 1.0, 0.2, 0.5, 10.0)
    db = TierLatency(0.002, 1.0, 10.0, 0.1, 0.5, 10.0)
    for policy in ("tad", "round-robin"):
        least = zero_load_s([web, db], [2.0, 1.0], [2, 3], policy, [95, 99])
        page = PageLatency(4.0)
        for servers, cores, r1, r2 in [(3, 2.0, 1, 1), (60, 2.0, 2, 3), (500, 1.0, 2, 1)]:
            front = Station(web, servers, cores, r1, policy, 2.0)
            back = Station(db, servers, 1.0, r2, policy, 20.0 * r1)
            for q in (95, 99):
                assert page.percentile_s([front, back], q) > least[q] * 0.997  # the grid's error


def test_the_zero_load_latency_of_one_exponential_tier_is_that_of_its_work() -> None:
    """-T ln(0.05) / r, for any number of cores above one."""
    quiet = TierLatency(0.05, 1.0, 1.0)
    for r in (1, 3):
        least = zero_load_s([quiet], [4.0], [r], "tad", [95])
        assert least[95] == pytest.approx(-0.05 * math.log(0.05) / r, rel=0.002)


def test_a_median_next_to_zero_is_found_without_end_of_refinement() -> None:
    """cv2 = 50: the median of a gamma law with shape 0.02 is 1e-15 of its mean."""
    steep = Station(TierLatency(0.05, 50.0, 1.0), 4, 1.0, 1, "tad", 1.0)
    assert 0 <= PageLatency(8.0).percentile_s([steep], 50) < 1e-9


def test_bad_questions_are_refused() -> None:
    with pytest.raises(InputError, match="q: expected"):
        PageLatency(1.0).percentile_s([_station()], 100)
    with pytest.raises(InputError, match="horizon_s"):
        PageLatency(math.inf)
    with pytest.raises(InputError, match="cores, replicas"):
        zero_load_s([QUIET], [1.0, 1.0], [1], "tad", [95])


def _shared_processor(rate_per_s: float, t: float) -> tuple[float, float, float]:
    """M/M/1 processor sharing, exactly: mean (Coffman, Muntz and Trotter 1970), p95 and p99, these
    of the absorption of a tagged job among at most 200 others."""
    from scipy.linalg import expm

    rho = rate_per_s * t
    others = np.arange(200)
    moves = np.diag(np.full(199, rate_per_s), 1) + np.diag(others[1:] / (others[1:] + 1.0) / t, -1)
    moves -= np.diag(moves.sum(axis=1) + 1.0 / (others + 1.0) / t)
    step_s = t / 20
    once, present, survival = expm(moves * step_s), (1 - rho) * rho**others, [1.0]
    while survival[-1] > 1e-4:
        present = present @ once
        survival.append(float(present.sum()))
    times_s = step_s * np.arange(len(survival))
    p95, p99 = (float(np.interp(-(1 - q), -np.array(survival), times_s)) for q in (0.95, 0.99))
    return t / (1 - rho), p95, p99


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_the_law_is_near_the_exact_one_of_a_shared_processor(load: float) -> None:
    """With the cv2 that a run at this load would measure: p95 +1 to +8 %, p99 -3 to -1 %."""
    station = _station(tier=replace(QUIET, cv2=(2 + load) / (2 - load)), request_per_s=80.0 * load)
    mean, p95, p99 = _shared_processor(20.0 * load, 0.05)
    page = PageLatency(12.0, points=8192)
    assert mean_s([station]) == pytest.approx(mean, rel=1e-9)
    assert page.percentile_s([station], 95) == pytest.approx(p95, rel=0.09)
    assert page.percentile_s([station], 99) == pytest.approx(p99, rel=0.04)


def test_the_first_of_many_nearly_equal_copies_takes_nearly_as_long_as_each() -> None:
    """Expected least of four normal draws: 1.0294 standard deviations below the mean."""
    for cv2 in (1e-4, 1e-2):
        station = Station(replace(QUIET, cv2=cv2), 8, 1.0, 4, "tad", 1e-6)
        expected_s = 0.05 * (1 - 1.0294 * math.sqrt(cv2))
        assert mean_s([station]) == pytest.approx(expected_s, rel=0.003)
