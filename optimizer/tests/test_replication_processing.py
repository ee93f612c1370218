"""The processing-time estimator against servers that share their cores equally."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InputError
from optimizer.replication import processing_times_s


def shared(arrivals_s: list[float], demands_s: list[float], cores: float) -> list[float]:
    """Departures from one egalitarian processor-sharing server, each job at most on one core."""
    left_s = [math.nan] * len(arrivals_s)
    waiting = sorted(range(len(arrivals_s)), key=lambda i: arrivals_s[i])[::-1]
    present: list[tuple[float, int]] = []  # (work at which the job is done, job)
    now, work = 0.0, 0.0
    while waiting or present:
        speed = min(1.0, cores / len(present)) if present else 1.0
        ends = now + (present[0][0] - work) / speed if present else math.inf
        comes = arrivals_s[waiting[-1]] if waiting else math.inf
        at = min(ends, comes)
        work += (at - now) * speed if present else 0.0
        now = at
        if comes <= ends:
            job = waiting.pop()
            heapq.heappush(present, (work + demands_s[job], job))
        else:
            left_s[heapq.heappop(present)[1]] = now
    return left_s


@pytest.mark.parametrize("cores", [0.4, 1.0, 2.0, 8.0])
def test_each_requests_demand_is_recovered_from_a_shared_server(cores: float) -> None:
    rng = np.random.default_rng(7)
    demands_s = rng.lognormal(0.0, 1.0, 2000)
    gap_s = demands_s.mean() / (0.8 * cores)
    arrivals_s = np.cumsum(rng.exponential(gap_s, 2000))
    left_s = shared(arrivals_s.tolist(), demands_s.tolist(), cores)
    found = processing_times_s(arrivals_s.tolist(), left_s, cores)
    assert found == pytest.approx(demands_s.tolist(), rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 2, 3])), min_size=1, max_size=12),
    st.sampled_from([0.5, 1.0, 2.0, 3.0]),
)
def test_jobs_that_come_together_or_take_nothing_are_recovered_too(
    jobs: list[tuple[int, int]], cores: float
) -> None:
    arrivals_s = [float(a) for a, _ in jobs]
    demands_s = [float(d) for _, d in jobs]
    found = processing_times_s(arrivals_s, shared(arrivals_s, demands_s, cores), cores)
    assert found == pytest.approx(demands_s, abs=1e-9)


def test_no_requests_have_no_processing_times() -> None:
    assert processing_times_s([], [], 1.0) == []


@pytest.mark.parametrize(
    ("arrivals", "departures"),
    [([1.0], [0.5]), ([0.0, math.nan], [1.0, 1.0]), ([0.0], [math.inf]), ([0.0], [])],
)
def test_times_that_cannot_be_are_refused(arrivals: list[float], departures: list[float]) -> None:
    with pytest.raises(InputError, match="departures_s"):
        processing_times_s(arrivals, departures, 1.0)
