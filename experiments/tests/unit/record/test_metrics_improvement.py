"""Improvement factors: exact where they must be, and intervals that cover as often as they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.record.metrics.improvement import improvement, pairs_of
from experiments.tests.bursts import bursty, in_the_long_run
from experiments.tests.frames import requests

ARMS = ("baseline", "replicated")


def true_mean_factor() -> float:
    """The factor of the means in the long run."""
    first, second = in_the_long_run(3000, 0.0)
    return float(first.mean() / second.mean())


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("pairs", "drift_sd"), [(2, 0.0), (2, 0.1), (4, 0.1)])
def test_intervals_cover_the_truth_about_as_often_as_they_claim(
    pairs: int, drift_sd: float
) -> None:
    truth, trials, covered = true_mean_factor(), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((pairs, round(drift_sd * 100), trial))
        sample = [bursty(rng, drift_sd) for _ in range(pairs)]
        found = improvement(sample, block_s=10.0, rng=rng)["mean"]
        covered += found["ci_low"] <= truth <= found["ci_high"]
    # Nominal 95 %. Fewer than 49 of 60 has a chance of 4e-5 at 95 %, 5 % at 88 %, 55 % at 80 %.
    assert covered >= 49, f"{covered} of {trials} intervals covered {truth:.3f}"


def test_a_bootstrap_over_single_requests_would_not_have_covered() -> None:
    """Why there are blocks of time: the naive interval misses far too often on the same data."""
    truth, trials, covered = true_mean_factor(), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((2, 10, trial))
        strata = [bursty(rng, 0.1)[0] for _ in range(2)]
        logs = [np.concatenate([s.arms[arm].latency_ms for s in strata]) for arm in (0, 1)]
        factor = np.log(logs[0].mean() / logs[1].mean())
        error = np.sqrt(sum(x.var() / x.size / x.mean() ** 2 for x in logs))
        covered += abs(factor - np.log(truth)) <= 1.96 * error
    assert covered < 49


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
    found = compared(*(frame(2.0 * replicated, replicated, pair=pair) for pair in range(2)))
    for entry in found.values():
        for key in ("factor", "ci_low", "ci_high"):
            assert entry[key] == pytest.approx(2.0)


def test_swapping_the_arms_inverts_factor_and_interval() -> None:
    rng = np.random.default_rng(6)
    both = frame(rng.lognormal(5, 1, 300), rng.lognormal(4, 1, 300))
    there, back = compared(both), compared(both, arms=ARMS[::-1])
    for name in there:
        assert back[name]["factor"] == pytest.approx(1 / there[name]["factor"])
        assert back[name]["ci_high"] == pytest.approx(1 / there[name]["ci_low"], rel=1e-6)


def test_pairs_that_disagree_open_the_interval() -> None:
    rng = np.random.default_rng(8)
    base = rng.lognormal(4.0, 0.3, 400)
    widths = []
    for times in ((2.0, 2.0), (1.0, 3.0)):
        found = compared(*(frame(base * k, base, pair=pair) for pair, k in enumerate(times)))
        widths.append(found["mean"]["ci_high"] / found["mean"]["ci_low"])
    assert widths[0] < 1.01
    assert widths[1] > 3.0


def test_one_pair_says_that_it_cannot_see_between_pairs() -> None:
    rng = np.random.default_rng(3)
    found = improvement([bursty(rng, 0.0)], block_s=10.0, rng=rng)
    assert found["mean"]["pairs"] == 1
    assert "one pair" in found["mean"]["note"]


def test_p99_of_few_requests_is_marked_insufficient() -> None:
    rng = np.random.default_rng(3)
    found = compared(frame(rng.lognormal(4, 1, 300), rng.lognormal(4, 1, 300)))
    assert found["p99"]["insufficient"]
    assert not found["p95"]["insufficient"]


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("count", [9_000, 10_000])
def test_p99_9_is_compared_where_ten_requests_lie_beyond_it(count: int) -> None:
    draw = np.random.default_rng(7)
    found = compared(frame(draw.lognormal(4.0, 0.5, count), draw.lognormal(3.0, 0.5, count)))
    assert ("p99_9" in found) is (count == 10_000)
    if count == 10_000:
        assert found["p99_9"]["samples_beyond"] == 10
        assert not found["p99_9"]["insufficient"]
        assert 1 < found["p99_9"]["ci_low"] < found["p99_9"]["factor"]


def test_an_interrupted_pair_compares_only_what_both_arms_measured() -> None:
    found = compared(frame([100.0] * 50 + [9000.0] * 50, [50.0] * 50))
    assert found["mean"]["factor"] == pytest.approx(2.0)
    assert found["mean"]["samples"] == 50


def test_without_a_second_arm_there_is_no_factor_and_a_reason() -> None:
    found = compared(frame([1.0, 2.0]))
    assert found["p99"]["factor"] is None
    assert found["p99"]["note"]
