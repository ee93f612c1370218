"""Shares of requests: exact where requests are independent, wider where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from core.statistics.shares import Effect, effect, share_interval, slowest

Numbers = NDArray[np.int64]
FREE = Effect(1.0, 1e9)


def test_independent_requests_have_clopper_and_pearsons_interval() -> None:
    """Clopper & Pearson 1934: 2 of 20, 95 %."""
    assert share_interval(2, 20, [FREE], 0.95) == pytest.approx((0.0123, 0.3170), abs=1e-4)
    assert share_interval(0, 20, [FREE], 0.95) == pytest.approx((0.0, 0.1684), abs=1e-4)
    assert share_interval(20, 20, [FREE], 0.95)[1] == 1.0


def test_the_least_favourable_effect_counts() -> None:
    narrow = share_interval(50, 1000, [FREE], 0.9)
    for wide in (Effect(4.0, 1e9), Effect(1.0, 3.0)):
        low, high = share_interval(50, 1000, [FREE, wide], 0.9)
        assert low < narrow[0] < narrow[1] < high
    assert share_interval(50, 1000, [Effect(4.0, 1e9)], 0.9) == pytest.approx(_of(12.5, 250.0, 0.9))


def _of(hits: float, size: float, confidence: float) -> tuple[float, float]:
    tail = (1.0 - confidence) / 2.0
    return (
        float(stats.beta.ppf(tail, hits, size - hits + 1)),
        float(stats.beta.isf(tail, hits + 1, size - hits)),
    )


def numbered(blocks: int, stretches: int, per_stretch: int) -> tuple[Numbers, Numbers]:
    """The block and the stretch of each request."""
    stretch = np.repeat(np.arange(blocks * stretches), per_stretch)
    return stretch // stretches, stretch


def test_stretches_that_are_slow_as_a_whole_count_as_one_request_each() -> None:
    block, stretch = numbered(8, 5, 20)
    estimate = effect(np.isin(stretch, [3, 11, 19, 26, 34, 38]), block, stretch)
    assert estimate.design == pytest.approx(20.0, rel=0.35)


def test_blocks_that_differ_raise_the_effect_and_leave_few_degrees_of_freedom() -> None:
    block, stretch = numbered(4, 5, 20)
    tenth = np.arange(400) % 10 == 0
    even, uneven = (effect(beyond, block, stretch) for beyond in (tenth, tenth & (block == 3)))
    assert even == Effect(1.0, 16.0)
    assert uneven.design > 5.0
    assert uneven.freedom < 5.0


def test_independent_requests_have_an_effect_of_about_one() -> None:
    block, stretch = numbered(12, 5, 20)
    rng = np.random.default_rng(1)
    effects = [effect(rng.random(1200) < 0.1, block, stretch).design for _ in range(200)]
    assert 1.0 <= np.mean(effects) < 1.5


def test_nothing_beyond_and_all_beyond_vary_by_nothing() -> None:
    block, stretch = numbered(2, 5, 4)
    for beyond in (np.zeros(40, dtype=bool), np.ones(40, dtype=bool)):
        assert effect(beyond, block, stretch).design == 1.0


@pytest.mark.parametrize(
    ("size", "share", "count"), [(1000, 0.05, 50), (100, 0.01, 10), (8, 0.01, 4)]
)
def test_the_slowest_are_as_many_as_may_be_beyond_and_ten_at_least(
    size: int, share: float, count: int
) -> None:
    latency_ms = np.random.default_rng(1).random(size)
    mask = slowest(latency_ms, share)
    assert mask.sum() == count
    assert latency_ms[mask].min() > latency_ms[~mask].max()
