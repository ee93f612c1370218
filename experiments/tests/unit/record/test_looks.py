"""Decisions of a comparison and of an SLO by their intervals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.record.metrics.looks import (
    ERROR,
    SLO_ERROR,
    levels,
    levels_of,
    look,
    look_words,
    looks_most,
)
from experiments.record.metrics.slo import slo_verdict
from experiments.tests.frames import requests
from experiments.tests.looked_runs import answer, frame_of, limit_ms, pair, slo_words

ARMS = ["arm-0", "arm-1"]


def manifest(figure: str = "p95", **slo: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "spec": {
            "design": {"decide": figure}, "interference": {"mean_run_s": 5.0}, "slo": slo or None,
        },
    }  # fmt: skip


def measured(factor: float, pairs: int = 4, spread: float = 0.0) -> pl.DataFrame:
    """Return pairs of blocks in which the second arm is `factor` times as fast."""
    rng = np.random.default_rng(2)
    frames = []
    all_pairs = frame_of([pair(rng, (0.95, 0.95), 0.0) for _ in range(pairs)])
    for number in range(pairs):
        base_block = all_pairs.filter(pl.col("arm") == "arm-0", pl.col("pair") == number)
        times = factor * np.exp(spread * (-1) ** number)
        fast_block = base_block.with_columns(
            arm=pl.lit("arm-1"),
            repeat=pl.col("repeat") + 1,
            latency_ms=pl.col("latency_ms") / times,
        )
        frames += [base_block, fast_block]
    return pl.concat(frames)


@pytest.mark.parametrize(
    ("factor", "spread", "decided"),
    [(3.0, 0.0, "faster"), (1 / 3, 0.0, "slower"), (1.0, 0.0, "equivalent"),
     (1.0, 0.6, "undecided"), (2.0, 1.0, "undecided")],
)  # fmt: skip
@pytest.mark.parametrize("figure", ["mean", "p50", "p95"])
def test_a_comparison_is_decided_by_its_interval(
    figure: str, factor: float, spread: float, decided: str
) -> None:
    report = look(measured(factor, spread=spread), ARMS, manifest(figure), ERROR, SLO_ERROR)
    assert report["comparisons"]["arm-1"]["decided"] == decided
    assert report["decided_by"] == (None if decided == "undecided" else "figure")
    assert report["slo"] == {}


def test_a_percentile_with_few_requests_beyond_it_decides_nothing() -> None:
    report = look(measured(3.0), ARMS, manifest("p99"), ERROR, SLO_ERROR)
    low = report["comparisons"]["arm-1"]["ci_low"]
    assert low is not None
    assert low > 1
    assert report["decided_by"] is None


@pytest.mark.parametrize(
    ("before", "limit_ms", "decided_by"), [(True, 100_000.0, "slo"), (False, 100_000.0, None)]
)
def test_an_slo_that_was_set_before_decides_a_run_whose_figure_does_not(
    before: bool, limit_ms: float, decided_by: str | None
) -> None:
    slo: dict[str, Any] = {"preregistered": before, "p95_ms": limit_ms}
    report = look(measured(1.0, 16, 0.6), ARMS, manifest("p50", **slo), ERROR, SLO_ERROR)
    assert report["comparisons"]["arm-1"]["decided"] == "undecided"
    assert report["decided_by"] == decided_by


def test_a_run_reports_at_the_level_of_its_last_look() -> None:
    assert levels_of({}) == (ERROR, SLO_ERROR)
    looks = [{"level": 0.03, "slo_level": 0.06}, {"level": 0.02, "slo_level": 0.05}]
    assert levels_of({"decided": {"looks": looks}}) == (0.02, 0.05)
    assert levels_of({"decided": {"looks": []}}) == (ERROR, SLO_ERROR)
    assert levels([1.0], ends=True) == pytest.approx((ERROR, SLO_ERROR))


def test_a_look_is_named_among_those_planned_and_those_made() -> None:
    entry = {"comparisons": {"b": {"decided": "undecided", "factor": None}}, "slo": {"b": "met"}}
    looks_report = {"figure": "p95", "planned": [2, 4], "looks": [entry]}
    title, text = look_words(looks_report, 0)
    assert title == "look 1 of 2"
    assert "undecided" in text
    assert looks_most({**looks_report, "looks": [entry, entry, entry]}) == 3


@pytest.mark.parametrize(
    ("runs", "drift_sd", "most"),
    # at 5 % more than 3 of 12 with a chance of 0.2 %; of 1,000 two standard deviations above it
    [(12, 0.15, 3), *(pytest.param(1000, sd, 64, marks=pytest.mark.long) for sd in (0.15, 0.3))],
)
def test_of_runs_of_arms_alike_one_in_twenty_errs_at_most(
    runs: int, drift_sd: float, most: int
) -> None:
    answers = Counter(answer(seed, (0.0, 0.0), drift_sd)[0] for seed in range(runs))
    assert answers["faster"] + answers["slower"] <= most, answers


@pytest.mark.parametrize(
    ("runs", "least"), [(10, 9), pytest.param(200, 194, marks=pytest.mark.long)]
)
def test_nearly_all_runs_decide_the_choice_of_server(runs: int, least: int) -> None:
    answers = Counter(answer(seed, (0.0, 0.95))[0] for seed in range(runs))
    assert answers["faster"] >= least, answers


ASKED = {"p95_ms": 500.0, "max_error_share": 0.01}


def frame(slow: list[int], failed: int = 0, size: int = 300) -> pl.DataFrame:
    """A block of `size` requests for each number of slow ones, spread evenly."""
    rows = []
    for repeat, count in enumerate(slow):
        chosen = set(np.linspace(0, size - 1, count).round().astype(int)) if count else set()
        rows += [
            {"repeat": repeat, "intended_s": 1000.0 * repeat + i, "index": i,
             "latency_ms": 900.0 if i in chosen else 100.0 + i % 7,
             "outcome": "ok" if repeat or i >= failed else "timeout"}
            for i in range(size)
        ]  # fmt: skip
    return requests(rows)


def judged(rows: pl.DataFrame, slo: dict[str, float] | None = None) -> Any:
    arm: Any = slo_verdict(rows, ["baseline"], slo or ASKED, block_s=10.0)["arms"]["baseline"]
    return arm


@pytest.mark.parametrize(
    ("slow", "met"),
    [([3, 3, 3, 3], True), ([15, 15, 15, 15], None), ([40, 40, 40, 40], False),
     ([0, 0, 0, 24], None), ([0, 0, 0, 0], True)],
    ids=["far below", "at the limit", "far above", "all in one block", "none"],
)  # fmt: skip
def test_a_limit_is_met_missed_or_undecided_by_its_interval(
    slow: list[int], met: bool | None
) -> None:
    arm_verdict = judged(frame(slow))
    share = arm_verdict["shares"]["p95_ms"]
    assert arm_verdict["limits"]["p95_ms"] is met
    assert share["share"] == pytest.approx(sum(slow) / 1200)
    assert share["low"] <= share["share"] <= share["high"]
    assert (share["allowed"], share["requests"]) == (0.05, 1200)


def test_more_blocks_decide_what_few_leave_open() -> None:
    few, many = (judged(frame([9] * blocks))["shares"]["p95_ms"] for blocks in (4, 16))
    assert few["low"] < many["low"] < 0.03 < many["high"] < few["high"]


def test_one_block_is_judged_by_its_stretches_of_time() -> None:
    assert judged(frame([3]))["limits"]["p95_ms"] is True
    assert judged(frame([60]))["limits"]["p95_ms"] is False


def test_failed_requests_count_as_slow_and_as_errors() -> None:
    arm_verdict = judged(frame([0, 0, 0, 0], failed=40))
    assert arm_verdict["limits"] == {"p95_ms": None, "max_error_share": None}
    assert arm_verdict["shares"]["max_error_share"]["share"] == pytest.approx(40 / 1200)
    assert len(arm_verdict["reasons"]) == 2


@pytest.mark.parametrize(("failed", "met"), [(0, True), (1, False)])
def test_where_nothing_may_fail_what_was_seen_decides(failed: int, met: bool) -> None:
    arm_verdict = judged(frame([0, 0], failed=failed), {"max_error_share": 0.0})
    assert arm_verdict["met"] is met


def test_a_burst_that_was_not_seen_leaves_a_rare_limit_open() -> None:
    """Slow requests in bursts: that none was beyond the limit says little of a p99."""
    rng = np.random.default_rng(1)
    rows = [
        {"repeat": repeat, "intended_s": 1000.0 * repeat + i / 5, "index": i,
         "latency_ms": (400.0 if repeat == 1 and 50 <= i < 75 else 100.0) + rng.random()}
        for repeat in range(4) for i in range(100)
    ]  # fmt: skip
    verdict = slo_verdict(requests(rows), ["baseline"], {"p99_ms": 1000.0}, block_s=5.0)
    assert verdict["met"] is None
    assert verdict["arms"]["baseline"]["shares"]["p99_ms"]["share"] == 0.0


def test_without_a_request_or_a_limit_nothing_is_said() -> None:
    assert judged(frame([1]).clear())["met"] is None
    assert slo_verdict(frame([1]), ["baseline"], None, block_s=5.0)["met"] is None


@pytest.mark.long
@pytest.mark.parametrize("blocks", [4, 6, 8, 12, 18])
@pytest.mark.parametrize(("key", "allowed"), [("p95_ms", 0.05), ("p99_ms", 0.01)])
def test_a_service_just_at_its_limit_is_seldom_judged(
    key: str, allowed: float, blocks: int
) -> None:
    """At its limit, met and missed are both wrong: each may come in one run of twenty at most."""
    at_limit = limit_ms(allowed, 0.0)
    verdicts = Counter(slo_words(seed, blocks, 0.0, {key: at_limit})["met"] for seed in range(1000))
    # 5 % and what chance adds to 1,000 runs of it, two standard deviations
    assert max(verdicts[True], verdicts[False]) <= 64, verdicts
