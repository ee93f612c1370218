"""Effects of neighbours on a server: jobs beside a page's, waits at each piece of its work."""

from __future__ import annotations

import pytest

from optimizer.simulation.disturbed import CROWD, Visited, capped_s

PAGE = Visited(work_s=0.034, delay_s=0.01, pieces=32, cores=0.35, burst_cores=2.0, threads=4)
QUERY = Visited(0.0003, 0.0002, 1, 0.15, 2.0, 4)


def test_work_alone_on_a_cap_bursts_and_then_waits_for_periods() -> None:
    assert capped_s(0.003, 0.35) == pytest.approx(0.003)
    assert capped_s(0.034, 0.35) == pytest.approx(0.09 + 0.034 - 9 * 0.0035)
    assert capped_s(0.034, 1.0) == pytest.approx(0.034)


@pytest.mark.parametrize("speed", [0.04, 0.1, 0.5])
def test_jobs_and_waits_take_the_time_that_the_run_tells(speed: float) -> None:
    event = PAGE.event(CROWD, speed)
    cpu_s = (1.0 + event["jobs"]) * PAGE.work_s / PAGE.cores
    took_s = PAGE.delay_s + cpu_s + PAGE.pieces * event["wait_s"]
    assert took_s == pytest.approx(PAGE.alone_s / speed)
    assert event["jobs"] <= PAGE.threads


def test_a_page_shares_with_the_neighbours_threads_and_a_short_query_only_waits() -> None:
    page, query = PAGE.event(CROWD, 0.04), QUERY.event(CROWD, 0.04)
    assert page["jobs"] == PAGE.threads
    assert 0.01 < page["wait_s"] < 0.1
    assert query["jobs"] == 0.0
    assert query["wait_s"] == pytest.approx(QUERY.alone_s / 0.04 - QUERY.alone_s)


def test_a_neighbour_on_the_card_costs_a_wait_and_a_limping_part_is_a_slower_server() -> None:
    card = QUERY.event("interference.iperf", 0.5)
    assert card == {"kind": "crowd", "jobs": 0.0, "wait_s": pytest.approx(QUERY.alone_s)}
    assert PAGE.event("cpu.limp", 0.5) == {"kind": "limp", "speed": 0.5}


def test_on_a_higher_cap_the_waits_are_shorter_and_on_all_cores_there_are_none() -> None:
    waits = [PAGE.event(CROWD, 0.04, cores)["wait_s"] for cores in (0.25, 0.35, 1.0, 2.0, 3.0)]
    assert waits == sorted(waits, reverse=True)
    assert waits[1] == pytest.approx(PAGE.event(CROWD, 0.04)["wait_s"])
    assert waits[3] == waits[4] == 0.0
    assert PAGE.event(CROWD, 0.04, 1.0)["jobs"] == PAGE.threads
    surely, worse = (PAGE.event(CROWD, 0.04, cores, 1.0) for cores in (0.35, 0.6))
    assert surely == PAGE.event(CROWD, 0.04)  # the cap of the run
    assert worse["jobs"] > PAGE.threads
