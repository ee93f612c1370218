"""Looks at a run: what decides it, at which level, and how seldom they err."""

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
from experiments.tests.looked_runs import answer, frame_of, pair

ARMS = ["arm-0", "arm-1"]


def manifest(figure: str = "p95", **slo: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "spec": {
            "design": {"decide": figure}, "interference": {"mean_run_s": 5.0}, "slo": slo or None,
        },
    }  # fmt: skip


def measured(factor: float, pairs: int = 4, spread: float = 0.0) -> pl.DataFrame:
    """Pairs of blocks of which the second arm is `factor` times as fast."""
    rng = np.random.default_rng(2)
    frames = []
    whole = frame_of([pair(rng, (0.95, 0.95), 0.0) for _ in range(pairs)])
    for number in range(pairs):
        one = whole.filter(pl.col("arm") == "arm-0", pl.col("pair") == number)
        times = factor * np.exp(spread * (-1) ** number)
        other = one.with_columns(
            arm=pl.lit("arm-1"),
            repeat=pl.col("repeat") + 1,
            latency_ms=pl.col("latency_ms") / times,
        )
        frames += [one, other]
    return pl.concat(frames)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("factor", "spread", "decided"),
    [(3.0, 0.0, "faster"), (1 / 3, 0.0, "slower"), (1.0, 0.0, "equivalent"),
     (1.0, 0.6, "undecided"), (2.0, 1.0, "undecided")],
)  # fmt: skip
@pytest.mark.parametrize("figure", ["mean", "p50", "p95"])
def test_a_comparison_is_decided_by_its_interval(
    figure: str, factor: float, spread: float, decided: str
) -> None:
    found = look(measured(factor, spread=spread), ARMS, manifest(figure), ERROR, SLO_ERROR)
    assert found["comparisons"]["arm-1"]["decided"] == decided
    assert found["decided_by"] == (None if decided == "undecided" else "figure")
    assert found["slo"] == {}


def test_a_percentile_with_few_requests_beyond_it_decides_nothing() -> None:
    found = look(measured(3.0), ARMS, manifest("p99"), ERROR, SLO_ERROR)
    assert found["comparisons"]["arm-1"]["ci_low"] > 1
    assert found["decided_by"] is None


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("before", "limit_ms", "decided_by"),
    [(True, 100_000.0, "slo"), (False, 100_000.0, None)],
)
def test_an_slo_that_was_set_before_decides_a_run_whose_figure_does_not(
    before: bool, limit_ms: float, decided_by: str | None
) -> None:
    asked: dict[str, Any] = {"preregistered": before, "p95_ms": limit_ms}
    found = look(measured(1.0, 16, 0.6), ARMS, manifest("p50", **asked), ERROR, SLO_ERROR)
    assert found["comparisons"]["arm-1"]["decided"] == "undecided"
    assert found["decided_by"] == decided_by


@pytest.mark.usefixtures("few_draws")
def test_a_look_with_less_error_has_a_wider_interval() -> None:
    frame = measured(1.5, spread=0.2)
    whole, part = (
        look(frame, ARMS, manifest(), level, SLO_ERROR)["comparisons"]["arm-1"]
        for level in (0.05, 0.01)
    )
    assert part["factor"] == whole["factor"]
    assert part["ci_low"] < whole["ci_low"] < whole["ci_high"] < part["ci_high"]


def test_a_run_reports_at_the_level_of_its_last_look() -> None:
    assert levels_of({}) == (ERROR, SLO_ERROR)
    looks = [{"level": 0.03, "slo_level": 0.06}, {"level": 0.02, "slo_level": 0.05}]
    assert levels_of({"decided": {"looks": looks}}) == (0.02, 0.05)
    assert levels_of({"decided": {"looks": []}}) == (ERROR, SLO_ERROR)
    assert levels([1.0], ends=True) == pytest.approx((ERROR, SLO_ERROR))


def test_a_look_is_named_among_those_planned_and_those_made() -> None:
    one = {"comparisons": {"b": {"decided": "undecided", "factor": None}}, "slo": {"b": "met"}}
    decided = {"figure": "p95", "planned": [2, 4], "looks": [one]}
    title, text = look_words(decided, 0)
    assert title == "look 1 of 2"
    assert "undecided" in text
    assert looks_most({**decided, "looks": [one, one, one]}) == 3


@pytest.mark.usefixtures("few_draws")
def test_looks_at_arms_alike_seldom_say_that_they_differ() -> None:
    found = Counter(answer(seed, (0.0, 0.0))[0] for seed in range(12))
    # of 12 at 5 % more than 3 with a chance of 0.2 %
    assert found["faster"] + found["slower"] <= 3, found


@pytest.mark.usefixtures("few_draws")
def test_a_policy_that_avoids_slowed_servers_is_shown_to_be_faster() -> None:
    found = Counter(answer(seed, (0.0, 0.95))[0] for seed in range(10))
    assert found["faster"] >= 9, found


@pytest.mark.long
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("drift_sd", [0.15, 0.3])
def test_of_a_thousand_runs_of_arms_alike_one_in_twenty_errs_at_most(drift_sd: float) -> None:
    found = Counter(answer(seed, (0.0, 0.0), drift_sd)[0] for seed in range(1000))
    # 5 % and what chance adds to 1,000 runs of it, two standard deviations
    assert found["faster"] + found["slower"] <= 64, found


@pytest.mark.long
@pytest.mark.usefixtures("few_draws")
def test_of_two_hundred_runs_nearly_all_decide_the_choice_of_server() -> None:
    found = Counter(answer(seed, (0.0, 0.95)) for seed in range(200))
    faster = sum(n for (word, _), n in found.items() if word == "faster")
    assert faster >= 194, found
