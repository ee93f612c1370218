"""Effects of neighbours on a server: jobs beside a page's, waits at each piece of its work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.simulation.disturbed import CROWD, QUOTA_PERIOD_S, Visited, capped_s
from optimizer.simulation.forms import Scenario, TierScenario
from optimizer.simulation.program import reports

PAGE = Visited(
    None,
    work_s=0.034,
    delay_s=0.01,
    pieces=32,
    cores=0.35,
    burst_cores=2.0,
    threads=4,
    own_jobs=1.0,
)
QUERY = Visited(None, 0.0003, 0.0002, 1, 0.15, 2.0, 4, 1.0)


def test_work_alone_on_a_cap_bursts_and_then_waits_for_periods() -> None:
    assert capped_s(0.003, 0.35) == pytest.approx(0.003)
    assert capped_s(0.034, 0.35) == pytest.approx(0.09 + 0.034 - 9 * 0.0035)
    assert capped_s(0.034, 1.0) == pytest.approx(0.034)


@pytest.mark.parametrize("calm_s", [None, 0.2])
@pytest.mark.parametrize("speed", [0.04, 0.1, 0.5])
def test_jobs_and_waits_take_the_time_that_the_run_tells(
    speed: float, calm_s: float | None
) -> None:
    """With the mean of the run, it is the run's in seconds, whatever a copy of the mean work takes
    alone: under a cap that is a fraction of the mean of all copies."""
    page = replace(PAGE, calm_s=calm_s)
    [crowd] = page.effects(CROWD, speed)
    cpu_s = (1.0 + crowd["jobs"]) * PAGE.work_s / PAGE.cores
    took_s = PAGE.delay_s + cpu_s + PAGE.pieces * crowd["wait_s"]
    assert took_s == pytest.approx((calm_s or PAGE.alone_s) / speed)
    assert crowd["jobs"] <= PAGE.threads


def test_each_page_is_a_job_beside_the_neighbours_threads_and_all_short_queries_are_one() -> None:
    [page] = PAGE.effects(CROWD, 0.04)
    slower, crowd = QUERY.effects(CROWD, 0.04)
    assert page["jobs"] == PAGE.threads
    assert 0.01 < page["wait_s"] < 0.1
    assert slower == {"kind": "limp", "speed": pytest.approx(1.0 / (1 + QUERY.threads))}
    cpu_s = QUERY.work_s / (QUERY.cores * slower["speed"])
    assert QUERY.delay_s + cpu_s + crowd["wait_s"] == pytest.approx(QUERY.alone_s / 0.04)


@pytest.mark.parametrize(
    ("ratio", "least_s", "most_s"), [(0.2, 0.03, 0.07), (0.6, 0.05, 0.13), (1.3, 0.8, 10.0)]
)
def test_short_requests_fall_behind_where_they_want_more_than_the_share_of_a_job(
    ratio: float, least_s: float, most_s: float
) -> None:
    """Requests of 1.34 ms beside four threads, under a cap of 0.25 cores: means of 47, 84 to 105,
    and 869 to 3,028 ms were measured at these ratios of the load to a fifth of the cap.
    Simulated requests share their part, so that those of a queue that grows wait longer."""
    request = Visited(None, 0.00134, 0.0, 1, 0.25, 2.0, 4, 1.0)
    effects = request.effects(CROWD, request.alone_s / 0.047)
    tier: TierScenario = {
        "name": "service",
        "servers": 1,
        "cores": request.cores,
        "quota": {"period_s": QUOTA_PERIOD_S, "burst_cores": request.burst_cores},
        "work": {"kind": "deterministic", "value_s": request.work_s},
        "policy": "round-robin",
        "replicas": 1,
        "tokens": 1_000,
        "faults": [{**effect, "server": 0, "at_s": 0.0, "for_s": 1e4} for effect in effects],
    }
    per_s = ratio * request.cores / (1 + request.threads) / request.work_s
    scenario: Scenario = {
        "seed": 1,
        "arrivals": {"kind": "poisson", "rate_per_s": per_s},
        "requests": 730,
        "in_flight_max": 1_000,
        "tiers": [tier],
    }
    assert least_s < reports([scenario])[0]["latency"]["mean_s"] < most_s


def test_a_neighbour_on_the_card_costs_a_wait_and_a_limping_part_is_a_slower_server() -> None:
    [card] = QUERY.effects("interference.iperf", 0.5)
    assert card == {"kind": "crowd", "jobs": 0.0, "wait_s": pytest.approx(QUERY.alone_s)}
    assert PAGE.effects("cpu.limp", 0.5) == [{"kind": "limp", "speed": 0.5}]


def test_on_a_higher_cap_the_waits_are_shorter_and_on_all_cores_there_are_none() -> None:
    crowds = [PAGE.effects(CROWD, 0.04, cores)[0] for cores in (0.25, 0.35, 1.0, 2.0, 3.0)]
    waits = [crowd["wait_s"] for crowd in crowds]
    assert waits == sorted(waits, reverse=True)
    assert waits[1] == pytest.approx(PAGE.effects(CROWD, 0.04)[0]["wait_s"])
    assert waits[3] == waits[4] == 0.0
    assert crowds[2]["jobs"] == PAGE.threads
    surely, worse = (PAGE.effects(CROWD, 0.04, cores, 1.0) for cores in (0.35, 0.6))
    assert surely == PAGE.effects(CROWD, 0.04)  # the cap of the run
    assert worse[0]["jobs"] > PAGE.threads
