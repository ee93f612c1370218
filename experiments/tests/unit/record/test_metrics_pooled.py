"""Factors of several runs, pooled: a published example, and how often the interval is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.nightly.calibrate import coverage
from experiments.record.metrics.pooled import pooled_log, standard_error

# Log risk ratios of BCG vaccine in 13 trials, and their variances (Colditz et al. 1994, as in
# Viechtbauer 2010, J. Stat. Softw. 36(3), `dat.bcg`).
BCG = [-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694, -1.3713,
       -0.3394, 0.4459, -0.0173]  # fmt: skip
BCG_VARIANCES = [0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730,
                 0.0124, 0.5325, 0.0714]  # fmt: skip


def test_the_published_example_comes_out() -> None:
    found = pooled_log(BCG, [math.sqrt(variance) for variance in BCG_VARIANCES])
    assert found.tau**2 == pytest.approx(0.318, abs=0.0015)
    assert found.i_squared == pytest.approx(0.9212, abs=0.001)
    assert found.log == pytest.approx(-0.7150, abs=0.001)


def test_runs_that_agree_have_no_spread_between_them() -> None:
    found = pooled_log([0.5, 0.51, 0.49], [0.2, 0.2, 0.2])
    assert found.tau == 0.0
    half = 4.3026527 * 0.2 / math.sqrt(3)  # Student's t of two degrees of freedom
    assert found.low == pytest.approx(0.5 - half, abs=1e-6)
    assert found.high == pytest.approx(0.5 + half, abs=1e-6)


def test_a_single_run_has_its_own_interval_and_no_other() -> None:
    found = pooled_log([0.4], [standard_error(0.1, 0.7)])
    assert (found.low, found.high) == pytest.approx((0.1, 0.7))
    assert found.next_low is None


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
    found = pooled_log(logs, errors)
    assert min(logs) - 1e-9 <= found.log <= max(logs) + 1e-9
    assert found.low < found.log < found.high
    moved = pooled_log([log + shift for log in logs], errors)
    assert moved.log == pytest.approx(found.log + shift, abs=1e-6)
    assert moved.tau == pytest.approx(found.tau, abs=1e-5)


@pytest.mark.parametrize("runs", [3, 6, 12])
def test_the_interval_holds_the_truth_at_least_about_as_often_as_it_says(runs: int) -> None:
    rng = np.random.default_rng(20261123)
    times, held = 2000, 0
    for _ in range(times):
        errors = rng.uniform(0.1, 0.4, runs)
        logs = 0.7 + rng.normal(0.0, 0.3, runs) + rng.normal(0.0, errors)
        found = pooled_log(logs.tolist(), errors.tolist())
        held += found.low <= 0.7 <= found.high
    assert 0.93 <= held / times <= 0.995  # with q at least 1, few runs err to the wide side


@pytest.mark.parametrize("between", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("runs", [3, 12, 18])
def test_95_of_100_further_runs_measure_what_is_said_of_a_further_run(
    between: float, runs: int
) -> None:
    rng = np.random.default_rng((20261128, runs, round(10 * between)))
    held = coverage(rng, between, runs, times=700)
    assert held >= 0.93  # of few runs that agree by chance it is wider than it need be
    if runs >= 12:
        assert held <= 0.98
