"""Percentiles, trimmed mean, shares, box plot and CCDF against hand-made and published values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.statistics.percentiles import percentile, rank_of
from experiments.record.metrics.distribution import box_plot, ccdf
from experiments.record.metrics.latency import (
    SAMPLES_BEYOND_MIN,
    latency_statistics,
    samples_beyond,
    trimmed_mean,
)

LATENCIES = st.lists(st.floats(0.01, 8000.0), min_size=1, max_size=300)


def test_percentiles_are_latencies_that_a_request_had() -> None:
    sample = np.arange(1.0, 21.0)
    assert [percentile(sample, q) for q in (0.5, 0.95, 0.99)] == [10.0, 19.0, 20.0]


@pytest.mark.parametrize(("samples", "p99_is_insufficient"), [(999, True), (1000, False)])
def test_a_percentile_needs_ten_samples_beyond_it(samples: int, p99_is_insufficient: bool) -> None:
    statistics = latency_statistics(np.arange(1.0, samples + 1.0))
    assert ("p99" in statistics["insufficient"]) is p99_is_insufficient
    assert statistics["samples_beyond"]["p99"] == samples_beyond(0.99, samples)


def test_trimmed_mean_drops_two_and_a_half_per_cent_at_each_end() -> None:
    sample = np.concatenate(([-1e9], np.full(38, 7.0), [1e9]))
    assert trimmed_mean(sample, 0.95) == 7.0


def test_time_outs_at_their_limit_are_in_every_statistic() -> None:
    statistics = latency_statistics(np.array([100.0] * 90 + [6000.0] * 10))
    assert statistics["mean_ms"] == pytest.approx(690.0)
    assert statistics["p95_ms"] == 6000.0
    assert statistics["share_above_s"] == {"0.1": 0.1, "1": 0.1, "2": 0.1}


def test_an_empty_sample_has_no_statistics_and_all_are_insufficient() -> None:
    statistics = latency_statistics(np.array([]))
    assert statistics["samples"] == 0
    assert statistics["mean_ms"] is None
    assert statistics["p50_ms"] is None
    assert statistics["insufficient"] == ["p50", "p90", "p95", "p99", "p99_9"]


@given(LATENCIES, st.randoms(use_true_random=False))
def test_order_of_arrival_changes_nothing(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert latency_statistics(np.array(shuffled)) == latency_statistics(np.array(values))


@given(LATENCIES)
def test_a_slower_clock_scales_every_latency_figure(values: list[float]) -> None:
    once = latency_statistics(np.array(values))
    doubled = latency_statistics(np.array(values) * 2.0)
    for key in ("mean_ms", "trimmed_mean_ms", "p50_ms", "p99_ms", "max_ms"):
        assert doubled[key] == pytest.approx(2.0 * once[key])


@given(LATENCIES)
def test_percentiles_never_fall_with_the_quantile(values: list[float]) -> None:
    found = latency_statistics(np.array(values))
    ladder = [found[f"{name}_ms"] for name in ("p50", "p90", "p95", "p99", "p99_9")]
    assert ladder == sorted(ladder)
    assert ladder[-1] <= found["max_ms"]


@given(st.floats(0.01, 0.999), st.integers(1, 10_000))
def test_a_rank_is_the_smallest_that_covers_its_quantile(quantile: float, samples: int) -> None:
    rank = rank_of(quantile, samples)
    assert 1 <= rank <= samples
    assert rank / samples >= quantile - 1e-9
    assert (rank - 1) / samples < quantile + 1e-9


@given(LATENCIES)
def test_the_ccdf_falls_strictly_and_counts_what_lies_beyond(values: list[float]) -> None:
    sample = np.array(values)
    steps = ccdf(sample)
    shares = [step["share"] for step in steps]
    assert shares == sorted(set(shares), reverse=True)
    for step in steps:
        assert step["beyond"] == np.count_nonzero(sample > step["latency_ms"])
        assert step["sufficient"] == (step["beyond"] >= SAMPLES_BEYOND_MIN)


def test_thinning_the_ccdf_keeps_its_ends() -> None:
    sample = np.random.default_rng(3).lognormal(4.0, 1.0, 50_000)
    steps = ccdf(sample, points_max=200)
    assert len(steps) <= 200
    assert steps[0]["latency_ms"] == sample.min()
    assert steps[-1]["beyond"] == 1


def test_a_box_is_made_of_order_statistics_and_absent_without_samples() -> None:
    box = box_plot(np.arange(1.0, 101.0))
    assert box is not None
    assert (box["p5_ms"], box["p25_ms"], box["p50_ms"], box["p75_ms"]) == (5.0, 25.0, 50.0, 75.0)
    assert (box["p95_ms"], box["max_ms"], box["samples"]) == (95.0, 100.0, 100)
    assert box_plot(np.array([])) is None
