"""Figures of a run: percentiles, pooled runs, operations, improvements and their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.statistics.percentiles import rank_of
from experiments.nightly.calibrate import coverage
from experiments.record.metrics.distribution import box_plot, ccdf
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.improvement import improvement, pairs_of
from experiments.record.metrics.latency import (
    SAMPLES_BEYOND_MIN,
    latency_statistics,
    samples_beyond,
    trimmed_mean,
)
from experiments.record.metrics.operations import NAMES_MAX, operation_figures
from experiments.record.metrics.pooled import pooled_log, standard_error
from experiments.record.metrics.slo import slo_verdict
from experiments.tests.bursts import bursty, in_the_long_run
from experiments.tests.frames import requests

LATENCIES = st.lists(st.floats(0.01, 8000.0), min_size=1, max_size=300)


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
    once: Any = latency_statistics(np.array(values))
    doubled: Any = latency_statistics(np.array(values) * 2.0)
    for key in ("mean_ms", "trimmed_mean_ms", "p50_ms", "p99_ms", "max_ms"):
        assert doubled[key] == pytest.approx(2.0 * once[key])


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


# Log risk ratios of BCG vaccine in 13 trials, and their variances (Colditz et al. 1994, as in
# Viechtbauer 2010, J. Stat. Softw. 36(3), `dat.bcg`).
BCG = [-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694, -1.3713,
       -0.3394, 0.4459, -0.0173]  # fmt: skip
BCG_VARIANCES = [0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730,
                 0.0124, 0.5325, 0.0714]  # fmt: skip


def test_the_published_example_comes_out() -> None:
    estimate = pooled_log(BCG, [math.sqrt(variance) for variance in BCG_VARIANCES])
    assert estimate.tau**2 == pytest.approx(0.318, abs=0.0015)
    assert estimate.log == pytest.approx(-0.7150, abs=0.001)


def test_runs_that_agree_have_no_spread_between_them() -> None:
    estimate = pooled_log([0.5, 0.51, 0.49], [0.2, 0.2, 0.2])
    assert estimate.tau == 0.0
    half = 4.3026527 * 0.2 / math.sqrt(3)  # Student's t of two degrees of freedom
    assert estimate.low == pytest.approx(0.5 - half, abs=1e-6)
    assert estimate.high == pytest.approx(0.5 + half, abs=1e-6)


def test_a_single_run_has_its_own_interval_and_no_other() -> None:
    estimate = pooled_log([0.4], [standard_error(0.1, 0.7)])
    assert (estimate.low, estimate.high) == pytest.approx((0.1, 0.7))
    assert estimate.next_low is None


def test_two_runs_say_nothing_of_a_further_one() -> None:
    assert pooled_log([0.4, 0.9], [0.1, 0.1]).next_high is None


@pytest.mark.parametrize(("logs", "errors"), [([], []), ([1.0], [0.0]), ([1.0, 2.0], [0.1])])
def test_what_cannot_be_pooled_is_refused(logs: list[float], errors: list[float]) -> None:
    with pytest.raises(ValueError, match="errors above 0"):
        pooled_log(logs, errors)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 2)), min_size=2, max_size=12),
    st.floats(-2, 2),
)
def test_the_mean_lies_among_the_runs_and_moves_with_them(
    runs: list[tuple[float, float]], shift: float
) -> None:
    logs, errors = [log for log, _ in runs], [error for _, error in runs]
    estimate = pooled_log(logs, errors)
    assert min(logs) - 1e-9 <= estimate.log <= max(logs) + 1e-9
    assert estimate.low < estimate.log < estimate.high
    shifted = pooled_log([log + shift for log in logs], errors)
    assert shifted.log == pytest.approx(estimate.log + shift, abs=1e-6)
    assert shifted.tau == pytest.approx(estimate.tau, abs=1e-5)


@pytest.mark.parametrize("runs", [3, 6, 12])
def test_the_interval_holds_the_truth_at_least_about_as_often_as_it_says(runs: int) -> None:
    rng = np.random.default_rng(20261123)
    times, covered = 2000, 0
    for _ in range(times):
        errors = rng.uniform(0.1, 0.4, runs)
        logs = 0.7 + rng.normal(0.0, 0.3, runs) + rng.normal(0.0, errors)
        estimate = pooled_log(logs.tolist(), errors.tolist())
        covered += estimate.low <= 0.7 <= estimate.high
    assert 0.93 <= covered / times <= 0.995  # with q at least 1, few runs err to the wide side


@pytest.mark.parametrize("between", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("runs", [3, 12, 18])
def test_95_of_100_further_runs_measure_what_is_said_of_a_further_run(
    between: float, runs: int
) -> None:
    rng = np.random.default_rng((20261128, runs, round(10 * between)))
    covered_share = coverage(rng, between, runs, times=700)
    assert covered_share >= 0.93  # of few runs that agree by chance it is wider than it need be
    if runs >= 12:
        assert covered_share <= 0.98


TIME_OUT_MS = 4000.0


def shopped(sessions: int = 300, failed: int = 0) -> pl.DataFrame:
    """Return pages of 100 ms, and sessions: a log-in of 20 ms and, 1 s later, a purchase of 300 ms.

    In `failed` of the sessions the log-in gives no token.
    """
    rows: list[dict[str, Any]] = []
    for number in range(sessions):
        at_s = 2.0 * number
        fails = failed > 0 and number % (sessions // failed) == 0
        step = {"session": "shopper", "session_number": 3 * number, "session_steps": 2}
        rows += [
            {"name": "log in", "index": 3 * number, "intended_s": at_s, "latency_ms": 20.0,
             "bytes": 10, "outcome": "bad_content" if fails else "ok",
             "reason": "no token" if fails else None, **step},
            {"name": "buy", "index": 3 * number + 1, "intended_s": at_s + 1.02,
             "latency_ms": None if fails else 300.0, "lag_ms": None if fails else 0.1,
             "status": 0 if fails else 201, "outcome": "unreached" if fails else "ok", **step},
            {"name": "page", "index": 3 * number + 2, "intended_s": at_s + 0.5},
        ]  # fmt: skip
    return prepared(requests(rows), TIME_OUT_MS)


def figures(frame: pl.DataFrame, table: str, name: str) -> dict[str, Any]:
    by_arm: dict[str, Any] = operation_figures(frame, ["baseline"], block_s=10.0)[table][name]
    return dict(by_arm["baseline"])


def test_each_operation_has_its_own_figures() -> None:
    frame = shopped(failed=30)
    log_in, buy = figures(frame, "operations", "log in"), figures(frame, "operations", "buy")
    assert (log_in["requests"], log_in["errors"]) == (300, 30)
    assert (log_in["p50_ms"], log_in["p95_ms"]) == (20.0, TIME_OUT_MS)
    assert log_in["reasons"] == {"no token": 30}
    assert (log_in["status"], log_in["bytes"]) == ({"200": 300}, 3000)
    assert buy["outcomes"] == {"ok": 270, "unreached": 30}
    assert (buy["status"], buy["p50_ms"]) == ({"201": 270}, 300.0)
    assert log_in["insufficient"] == ["p99"]


def test_a_percentile_lies_in_its_interval() -> None:
    frame = requests({"latency_ms": 100.0 + (k * 37) % 1000} for k in range(2000))
    shopper = figures(frame, "operations", "n")
    for name in ("p50", "p95", "p99"):
        low, high = shopper[f"{name}_ms_interval"]
        assert low < shopper[f"{name}_ms"] < high


def test_a_session_counts_from_its_begin_to_its_last_answer() -> None:
    frame = shopped(failed=30)
    shopper = figures(frame, "sessions", "shopper")
    assert (shopper["requests"], shopper["errors"]) == (300, 30)
    assert shopper["p50_ms"] == pytest.approx(1320.0)
    assert shopper["p99_ms"] == TIME_OUT_MS, "one that failed counts with the time-out"
    assert shopper["reasons"] == {"log in": 30}


def test_a_session_that_was_cut_counts_for_nothing() -> None:
    complete = shopped(10)
    cut = complete.filter(~((pl.col("name") == "buy") & (pl.col("session_number") == 27)))
    assert figures(cut, "sessions", "shopper")["requests"] == 9


def test_a_load_of_many_names_has_no_table() -> None:
    rows = requests({"name": str(number)} for number in range(NAMES_MAX + 1))
    tables = operation_figures(rows, ["baseline"], block_s=10.0)
    assert tables == {"operations": {}, "sessions": {}}


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        ({"operations": {"page": {"p95_ms": 200.0}}}, True),
        ({"operations": {"buy": {"p95_ms": 200.0}}}, False),
        ({"operations": {"log in": {"max_error_share": 0.05}}}, False),
        ({"operations": {"log in": {"max_error_share": 0.1}}}, None),
        ({"operations": {"gone": {"p95_ms": 200.0}}}, None),
        ({"sessions": {"shopper": {"p99_ms": 9000.0, "max_error_share": 0.5}}}, False),
        ({"sessions": {"shopper": {"max_error_share": 0.5}}}, True),
    ],
)
def test_an_slo_of_a_part_is_judged_by_its_requests_and_counts_for_the_whole(
    limits: dict[str, Any], met: bool | None
) -> None:
    frame = shopped(failed=30)
    slo = {"max_error_share": 0.5, **limits}
    verdict = slo_verdict(frame, ["baseline"], slo, block_s=10.0)
    ((table, parts),) = limits.items()
    arm: Any = verdict["arms"]["baseline"]
    (part,) = arm[table].values()
    assert (part["met"], verdict["met"]) == (met, met)
    assert bool(verdict["reasons"]) == (met is not True)
    if met is not True:
        assert all(reason.startswith(tuple(parts)) for reason in verdict["reasons"])


ARMS = ("baseline", "replicated")


def true_mean_factor() -> float:
    """The factor of the means in the long run."""
    slow_arm, fast_arm = in_the_long_run(3000, 0.0)
    return float(slow_arm.mean() / fast_arm.mean())


@pytest.mark.parametrize(("pairs", "drift_sd"), [(2, 0.1), (4, 0.1)])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(
    pairs: int, drift_sd: float
) -> None:
    truth, trials, covered = true_mean_factor(), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((pairs, round(drift_sd * 100), trial))
        sample = [bursty(rng, drift_sd) for _ in range(pairs)]
        mean_factor: Any = improvement(sample, block_s=10.0, rng=rng)["mean"]
        covered += mean_factor["ci_low"] <= truth <= mean_factor["ci_high"]
    # Nominal 95 %. Fewer than 49 of 60 has a chance of 4e-5 at 95 %, 5 % at 88 %, 55 % at 80 %.
    assert covered >= 49, f"{covered} of {trials} intervals covered {truth:.3f}"


def frame(*values: Iterable[float], pair: int = 0) -> pl.DataFrame:
    """The latencies of both arms of one pair, one request a second."""
    return requests(
        {"arm": arm, "repeat": pair * 2 + number, "pair": pair, "index": index,
         "intended_s": 100.0 * number + index, "latency_ms": value}
        for number, (arm, of_arm) in enumerate(zip(ARMS, values, strict=False))
        for index, value in enumerate(of_arm)
    )  # fmt: skip


def compared(*frames: pl.DataFrame, arms: tuple[str, str] = ARMS) -> dict[str, Any]:
    """The improvement from the first arm to the second."""
    pairs = pairs_of(pl.concat(frames), *arms)
    return improvement(pairs, block_s=10.0, rng=np.random.default_rng(1))


def test_a_constant_ratio_gives_an_interval_without_width() -> None:
    replicated = np.random.default_rng(5).lognormal(4.0, 0.5, 200)
    entries = compared(*(frame(2.0 * replicated, replicated, pair=pair) for pair in range(2)))
    for entry in entries.values():
        for key in ("factor", "ci_low", "ci_high"):
            assert entry[key] == pytest.approx(2.0)


def test_swapping_the_arms_inverts_factor_and_interval() -> None:
    rng = np.random.default_rng(6)
    frame_of_both = frame(rng.lognormal(5, 1, 300), rng.lognormal(4, 1, 300))
    forward, backward = compared(frame_of_both), compared(frame_of_both, arms=ARMS[::-1])
    for name in forward:
        assert backward[name]["factor"] == pytest.approx(1 / forward[name]["factor"])
        assert backward[name]["ci_high"] == pytest.approx(1 / forward[name]["ci_low"], rel=1e-6)


def test_pairs_that_disagree_open_the_interval() -> None:
    rng = np.random.default_rng(8)
    base = rng.lognormal(4.0, 0.3, 400)
    widths = []
    for times in ((2.0, 2.0), (1.0, 3.0)):
        entries = compared(*(frame(base * k, base, pair=pair) for pair, k in enumerate(times)))
        widths.append(entries["mean"]["ci_high"] / entries["mean"]["ci_low"])
    assert widths[0] < 1.01
    assert widths[1] > 3.0


def test_what_few_requests_and_one_pair_cannot_say_is_marked() -> None:
    rng = np.random.default_rng(3)
    entries = compared(frame(rng.lognormal(4, 1, 300), rng.lognormal(4, 1, 300)))
    assert (entries["p99"]["insufficient"], entries["p95"]["insufficient"]) == (True, False)
    assert entries["mean"]["pairs"] == 1
    assert "one pair" in entries["mean"]["note"], "it cannot see between pairs"
    single_p99 = compared(frame([1.0, 2.0]))["p99"]
    assert single_p99["factor"] is None
    assert single_p99["note"], "there is no second arm"


@pytest.mark.parametrize("count", [9_000, 10_000])
def test_p99_9_is_compared_where_ten_requests_lie_beyond_it(count: int) -> None:
    draw = np.random.default_rng(7)
    entries = compared(frame(draw.lognormal(4.0, 0.5, count), draw.lognormal(3.0, 0.5, count)))
    assert ("p99_9" in entries) is (count == 10_000)
    if count == 10_000:
        assert entries["p99_9"]["samples_beyond"] == 10
        assert not entries["p99_9"]["insufficient"]
        assert 1 < entries["p99_9"]["ci_low"] < entries["p99_9"]["factor"]


def test_an_interrupted_pair_compares_only_what_both_arms_measured() -> None:
    entries = compared(frame([100.0] * 50 + [9000.0] * 50, [50.0] * 50))
    assert entries["mean"]["factor"] == pytest.approx(2.0)
    assert entries["mean"]["samples"] == 50
