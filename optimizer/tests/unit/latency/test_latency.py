"""The latency model against closed forms, a simulation, and what must be monotone; writes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import gamma

from core.errors import InputError, UnstableError
from optimizer.latency import (
    BINS,
    PageLatency,
    Station,
    Stays,
    TierLatency,
    below_of,
    mean_of,
    mean_s,
    stays,
    waits,
    zero_load_s,
)
from optimizer.latency.station import POLICIES
from random_tests import examples

QUIET = TierLatency(processing_s=0.05, cv2=1.0, visits=1.0)


def _station(**changes: object) -> Station:
    base = Station(
        QUIET, servers=4, cores=1.0, replicas=1, policy="round-robin", request_per_s=40.0
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_one_core_servers_have_the_mean_of_processor_sharing() -> None:
    """rho = 40 * 0.05 / 4 = 0.5: T / (1 - rho) = 0.1 s, for any law of the work."""
    assert stays(_station()).means_s[0] == pytest.approx(0.1)


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
    single = page.percentile_s([light], 99)
    replicated = page.percentile_s([replace(light, replicas=2)], 99)
    assert single > 2 * quiet
    assert replicated < single / 2


def _slowed(state: Stays) -> tuple[float, ...]:
    """Return the probability that k copies are on slowed servers, for k = 0, 1, ..."""
    law = [0.0] * (sum(state.mixes[0][1]) + 1)
    for weight, counts in state.mixes:
        law[counts[1] + counts[3]] += weight
    return tuple(law)


def test_tad_avoids_slow_servers_that_round_robin_uses() -> None:
    noisy = replace(QUIET, interference_share=0.2, gamma=0.3, run_s=10.0)
    round_robin = stays(_station(tier=noisy, request_per_s=8.0))
    tad = stays(_station(tier=noisy, request_per_s=8.0, policy="tad"))
    assert _slowed(round_robin) == pytest.approx((0.8, 0.2))
    assert _slowed(tad)[1] < 0.1  # by speed: 0.2 * 0.3 / 0.86 with many servers
    none = stays(_station(tier=noisy, request_per_s=2.0, policy="tad", replicas=4))
    assert _slowed(none) == pytest.approx(
        _slowed(stays(_station(tier=noisy, replicas=4, request_per_s=2.0)))
    )


def test_a_page_takes_its_own_time_and_that_of_all_its_queries() -> None:
    query = TierLatency(processing_s=0.004, cv2=1.0, visits=15.0)
    back = Station(query, 3, 1.0, 1, "round-robin", request_per_s=75.0)
    front = _station(request_per_s=5.0)
    expected = stays(front).means_s[0] + 15 * stays(back).means_s[0]
    assert mean_s([front, back]) == pytest.approx(expected, rel=1e-9)


def test_a_two_tier_page_agrees_with_a_simulation_of_the_same_assumptions() -> None:
    """Independent draw of the composition: min over two copies of own + 15 queries, slow or not."""
    rng = np.random.default_rng(3)
    web = TierLatency(0.05, 0.5, 1.0, 0.2, 0.4, 10.0)
    db = TierLatency(0.004, 1.0, 15.0, 0.2, 0.4, 10.0)
    front = Station(web, 4, 1.0, 2, "round-robin", 5.0)
    back = Station(db, 6, 1.0, 2, "round-robin", 150.0)
    n = 200_000
    means = {s: np.array(stays(s).means_s[:2]) for s in (front, back)}

    def draw(station: Station, size: tuple[int, ...], slow: np.ndarray) -> np.ndarray:
        cv2 = station.tier.cv2
        return np.asarray(rng.gamma(1 / cv2, cv2, size) * means[station][slow.astype(int)])

    total = np.full(n, np.inf)
    for _ in range(2):
        front_s = draw(front, (n,), rng.random(n) < 0.2)
        slow = rng.random((2, n)) < 0.2
        queries = sum(
            np.minimum(draw(back, (n,), slow[0]), draw(back, (n,), slow[1])) for _ in range(15)
        )
        total = np.minimum(total, front_s + queries)
    page = PageLatency(2.0)
    for q in (50, 95, 99):
        assert page.percentile_s([front, back], q) == pytest.approx(
            float(np.percentile(total, q)), rel=0.02
        )


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
                coarse = PageLatency(8.0).percentile_s(chain[:tiers], q)
                assert coarse == pytest.approx(fine.percentile_s(chain[:tiers], q), rel=0.005)


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


ROUNDING = 1.0 + 1e-9


@st.composite
def _tiers(draw: st.DrawFn, visits: st.SearchStrategy[float]) -> TierLatency:
    return TierLatency(processing_s=draw(st.floats(0.002, 0.05)),
                       cv2=draw(st.sampled_from([0.3, 1.0, 3.0, 10.0])), visits=draw(visits),
                       interference_share=draw(st.sampled_from([0.0, 0.013, 0.1, 0.4])),
                       gamma=draw(st.sampled_from([0.2, 0.5, 0.9])),
                       run_s=draw(st.sampled_from([0.5, 5.0, 60.0])))  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> tuple[Station, ...]:
    """Draw chains with up to 97 % load of the cores that neighbours leave on average."""
    policy, rate, chain = draw(st.sampled_from(POLICIES)), draw(st.floats(1.0, 200.0)), []
    for number in range(draw(st.integers(3, 5))):
        visits = st.just(1.0) if number == 0 else st.sampled_from([0.3, 1.0, 1.7, 6.0])
        tier = draw(_tiers(visits))
        rate *= tier.visits
        replicas = draw(st.integers(1, 3))
        cores = draw(st.sampled_from([0.5, 1.0, 2.0, 8.0]))
        cores_left = cores * (1.0 - tier.interference_share * (1.0 - tier.gamma))
        busy = draw(st.floats(0.05, 0.97))
        servers = math.ceil(rate * replicas * tier.processing_s / (cores_left * busy))
        chain.append(Station(tier, max(replicas, servers), cores, replicas, policy, rate))
        rate *= replicas
    return tuple(chain)


@examples(60)
@given(chains(), st.integers(0, 4),
       st.sampled_from([{"servers": 1}, {"servers": 3}, {"cores": 0.5}, {"cores": 4.0}]),
       st.sampled_from([0.01, 0.3, 4.0]))  # fmt: skip
def test_no_percentile_grows_with_servers_or_cores_of_any_tier(
    chain: tuple[Station, ...], tier: int, more: dict[str, float], horizon_s: float
) -> None:
    """The planner's proof rests on this: dominance, labels and cuts."""
    assume(tier < len(chain))
    original = chain[tier]
    grown = {key: getattr(original, key) + value for key, value in more.items()}
    larger = (*chain[:tier], replace(original, **grown), *chain[tier + 1 :])
    assert np.all(below_of(larger) <= below_of(chain) * ROUNDING)
    page = PageLatency(horizon_s)
    for q in (50, 95, 99):
        slow, fast = page.percentile_s(chain, q), page.percentile_s(larger, q)
        assert math.isinf(slow) or fast <= slow * ROUNDING


@examples(40)
@given(chains(), st.sampled_from([1.001, 1.1, 2.0]))
def test_no_percentile_falls_with_the_load(chain: tuple[Station, ...], factor: float) -> None:
    busier = tuple(replace(stage, request_per_s=factor * stage.request_per_s) for stage in chain)
    page = PageLatency(4.0)
    try:
        slow = [page.percentile_s(busier, q) for q in (95, 99)]
    except UnstableError:
        return
    fast = [page.percentile_s(chain, q) for q in (95, 99)]
    assert all(f <= s * ROUNDING for f, s in zip(fast, slow, strict=True))


@examples(40)
@given(chains(), st.integers(0, BINS - 1))
def test_a_law_below_that_is_larger_in_one_bin_makes_nothing_above_faster(
    chain: tuple[Station, ...], number: int
) -> None:
    """The labels compare only the laws below a tier."""
    law = below_of(chain[2:])
    larger = law.copy()
    larger[:, number:] = np.maximum(larger[:, number:], 1.5 * law[:, number : number + 1])
    for station in chain[:2]:
        assert np.all(waits(station, law) <= waits(station, larger) * ROUNDING)


def _drawn(chain: tuple[Station, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n` pages as the law has them: all visits of a copy are on the same server."""
    front = chain[0]
    state, cv2, visits = stays(front), front.tier.cv2, int(front.tier.visits)
    assert visits == front.tier.visits
    which = rng.choice(len(state.mixes), p=[weight for weight, _ in state.mixes], size=n)
    kinds = np.array(
        [[k for k, count in enumerate(counts) for _ in range(count)] for _, counts in state.mixes]
    )[which]
    total = np.zeros(n)
    for _ in range(visits):
        first_s = np.full(n, np.inf)
        for copy in range(front.replicas):
            mean_s = np.array(state.means_s)[kinds[:, copy]]
            latency_s = rng.gamma(1.0 / cv2, cv2, n) * mean_s
            if len(chain) > 1:
                latency_s += _drawn(chain[1:], n, rng)
            first_s = np.minimum(first_s, latency_s)
        total += first_s
    return total


WEB = TierLatency(0.02318, 1.0, 1.0)
APP = TierLatency(0.01624, 3.0, 1.0, 0.013, 0.3, 5.0)
DB = TierLatency(0.00942, 1.0, 1.0)


@pytest.mark.parametrize("servers", [2, 3, 6])
@pytest.mark.parametrize(("policy", "replicas", "visits"), [
    ("round-robin", 1, 1.0), ("tad", 2, 1.0), ("round-robin", 1, 4.0), ("round-robin", 2, 3.0),
])  # fmt: skip
def test_pages_drawn_from_the_laws_own_servers_have_its_percentiles(
    servers: int, policy: str, replicas: int, visits: float
) -> None:
    """p95 within 2 %, p99 within 9 %; the middle tier is overloaded now and then."""
    rate = 104.16 / visits
    chain = (
        Station(WEB, 1, 8.0, 1, policy, rate),
        Station(replace(APP, visits=visits), servers * replicas, 2.0, replicas, policy, 104.16),
        Station(DB, 4, 2.0, 1, policy, 104.16 * replicas),
    )
    pages = _drawn(chain, 300_000, np.random.default_rng(5))
    page = PageLatency(16.0)
    assert page.percentile_s(chain, 95) == pytest.approx(np.quantile(pages, 0.95), rel=0.02)
    assert page.percentile_s(chain, 99) == pytest.approx(np.quantile(pages, 0.99), rel=0.09)
    total = mean_of(waits(chain[0], below_of(chain[1:])))[0]
    assert total == pytest.approx(pages.mean(), rel=0.02)


def test_half_a_visit_is_made_by_half_of_the_copies() -> None:
    once = below_of((Station(WEB, 4, 2.0, 1, "tad", 20.0),))
    half = below_of((Station(replace(WEB, visits=0.5), 4, 2.0, 1, "tad", 20.0),))
    assert mean_of(half)[0] == pytest.approx(0.5 * mean_of(once)[0])
    assert half[0, 2] == 0.0 < half[0, 5]


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
    stay_s = stays(station(share, servers)).means_s[0]
    assert stay_s == pytest.approx(1.0 / (1.0 / WORK_S - arrivals), rel=1e-12)


@pytest.mark.parametrize("policy", ["round-robin", "tad"])
def test_no_number_of_servers_carries_more_writes_than_one_does(policy: str) -> None:
    for servers in (1, 10, 1000):
        with pytest.raises(UnstableError):
            stays(station(1.0, servers, policy=policy, request_per_s=101.0))
    assert stays(station(0.5, 1000, policy=policy, request_per_s=101.0)).means_s[0] < 0.03


def test_a_limping_server_has_its_writes_whatever_the_policy() -> None:
    def limping(share: float) -> Station:
        return station(share, 4, limping=1, limp_speed=0.25, policy="tad")

    assert stays(limping(0.2)).means_s[0] > 0.0
    with pytest.raises(UnstableError):
        stays(limping(0.5))  # 0.3 of a whole server, 1.2 of this one


@pytest.mark.parametrize("q", [50, 90, 95, 99])
def test_a_front_tier_mixes_the_first_of_two_reads_and_a_single_write(q: int) -> None:
    share, cv2 = 0.3, 0.5
    front = station(share, 4, replicas=2)
    front = replace(front, tier=replace(front.tier, cv2=cv2))
    rho = RATE * WORK_S * (2 * (1.0 - share) / 4 + share)
    law = gamma(1.0 / cv2, scale=cv2 * WORK_S / (1.0 - rho))

    def beyond(t: float) -> float:
        return float((1.0 - share) * law.sf(t) ** 2 + share * law.sf(t)) - (1.0 - q / 100.0)

    by_hand = brentq(beyond, 0.0, 1.0)
    assert PageLatency(0.5).percentile_s([front], q) == pytest.approx(by_hand, rel=5e-3)


def test_below_the_front_the_means_of_reads_and_writes_add_up() -> None:
    share, visits = 0.25, 8.0
    back = station(share, 4, replicas=2)
    back = replace(back, tier=replace(back.tier, visits=visits))
    rho = RATE * WORK_S * (2 * (1.0 - share) / 4 + share)
    mean = WORK_S / (1.0 - rho)
    by_hand = visits * ((1.0 - share) * mean / 2.0 + share * mean)  # exponential: half of two
    assert float(mean_of(waits(back))[0]) == pytest.approx(by_hand, rel=0.02)


def test_a_share_of_nothing_changes_nothing_and_writes_alone_are_single() -> None:
    page = PageLatency(1.0)
    plain = replace(station(0.0, 4, 2), tier=TierLatency(WORK_S, 1.0, 1.0))
    assert page.percentile_s([station(0.0, 4, 2)], 95) == page.percentile_s([plain], 95)
    alone = station(1.0, 4, replicas=2)
    assert page.percentile_s([alone], 95) == page.percentile_s([replace(alone, replicas=1)], 95)


@examples(40)
@given(st.floats(0.0, 1.0), st.integers(1, 3), st.sampled_from(["round-robin", "tad"]),
       st.floats(0.3, 8.0), st.sampled_from([0.0, 0.3]))  # fmt: skip
def test_no_percentile_grows_with_servers_or_cores(
    share: float, replicas: int, policy: str, visits: float, noisy: float
) -> None:
    law = TierLatency(0.02, 1.5, visits, noisy, 0.5, 5.0, share)
    front = Station(TierLatency(0.01, 1.0, 1.0, write_share=share), 6, 2.0, replicas, policy, 20.0)
    page = PageLatency(4.0)
    percentiles = []
    for servers, cores in ((4, 4.0), (5, 4.0), (9, 4.0), (9, 8.0), (40, 8.0)):
        db = Station(law, servers, cores, replicas, policy, 20.0 * visits)
        try:
            percentiles.append([page.percentile_s([front, db], q) for q in (50, 95, 99)])
        except UnstableError:
            percentiles.append([np.inf] * 3)
    for larger, smaller in zip(percentiles[1:], percentiles, strict=False):
        assert all(a <= b * (1 + 1e-9) for a, b in zip(larger, smaller, strict=True))
