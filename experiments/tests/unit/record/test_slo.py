"""An SLO met, missed or undecided, by the share beyond each limit and its interval."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.record.metrics.slo import slo_verdict
from experiments.tests.frames import requests
from experiments.tests.looked_runs import limit_ms, slo_words

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


def judged(found: pl.DataFrame, asked: dict[str, float] | None = None) -> dict[str, Any]:
    arm: dict[str, Any] = slo_verdict(found, ["baseline"], asked or ASKED, block_s=10.0)["arms"][
        "baseline"
    ]
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
    found = judged(frame(slow))
    share = found["shares"]["p95_ms"]
    assert found["limits"]["p95_ms"] is met
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
    found = judged(frame([0, 0, 0, 0], failed=40))
    assert found["limits"] == {"p95_ms": None, "max_error_share": None}
    assert found["shares"]["max_error_share"]["share"] == pytest.approx(40 / 1200)
    assert len(found["reasons"]) == 2


@pytest.mark.parametrize(("failed", "met"), [(0, True), (1, False)])
def test_where_nothing_may_fail_what_was_seen_decides(failed: int, met: bool) -> None:
    found = judged(frame([0, 0], failed=failed), {"max_error_share": 0.0})
    assert found["met"] is met


def test_a_burst_that_was_not_seen_leaves_a_rare_limit_open() -> None:
    """Slow requests in bursts: that none was beyond the limit says little of a p99."""
    rng = np.random.default_rng(1)
    rows = [
        {"repeat": repeat, "intended_s": 1000.0 * repeat + i / 5, "index": i,
         "latency_ms": (400.0 if repeat == 1 and 50 <= i < 75 else 100.0) + rng.random()}
        for repeat in range(4) for i in range(100)
    ]  # fmt: skip
    found = slo_verdict(requests(rows), ["baseline"], {"p99_ms": 1000.0}, block_s=5.0)
    assert found["met"] is None
    assert found["arms"]["baseline"]["shares"]["p99_ms"]["share"] == 0.0


def test_without_a_request_or_a_limit_nothing_is_said() -> None:
    assert judged(frame([1]).clear())["met"] is None
    assert slo_verdict(frame([1]), ["baseline"], None, block_s=5.0)["met"] is None


@pytest.mark.long
@pytest.mark.parametrize("blocks", [4, 6, 8, 12, 18])
@pytest.mark.parametrize(("key", "allowed"), [("p95_ms", 0.05), ("p99_ms", 0.01)])
def test_a_service_just_at_its_limit_is_seldom_judged(
    key: str, allowed: float, blocks: int
) -> None:
    """There either answer is as wrong as it gets: each at most one time in twenty."""
    at_limit = limit_ms(allowed, 0.0)
    found = Counter(slo_words(seed, blocks, 0.0, {key: at_limit})["met"] for seed in range(1000))
    # 5 % and what chance adds to 1,000 runs of it, two standard deviations
    assert max(found[True], found[False]) <= 64, found
