"""The error spent over looks: published boundaries, and no more errors than allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from core.statistics.sequential import decision, look_levels, look_times


def test_boundaries_are_those_that_were_published() -> None:
    """Lan & DeMets 1983, Pocock's type, alpha 0.05 two-sided, five even looks."""
    levels = look_levels([0.2, 0.4, 0.6, 0.8, 1.0], 0.05)
    bounds = [float(stats.norm.isf(level / 2.0)) for level in levels]
    assert bounds == pytest.approx([2.438, 2.427, 2.410, 2.397, 2.386], abs=2e-3)


def test_one_look_has_the_whole_error() -> None:
    assert look_levels([1.0], 0.05) == pytest.approx([0.05])
    assert look_levels([0.6], 0.05, ends=True) == pytest.approx([0.05])


def test_looks_together_err_as_often_as_allowed_and_not_as_one_look_would() -> None:
    shares = [0.5, 0.75, 1.0]
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(100_000, 3)) * np.sqrt([0.5, 0.25, 0.25])
    z = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(shares)
    for ends, error in ((False, 0.05), (True, 0.10)):
        bounds = stats.norm.isf(np.array(look_levels(shares, error, ends=ends)) / 2.0)
        assert (z >= bounds).any(axis=1).mean() == pytest.approx(error, abs=0.003)
    assert (z >= 1.96).any(axis=1).mean() > 0.09


def test_an_end_before_the_largest_sample_spends_what_is_left() -> None:
    early, late = look_levels([0.5, 0.75], 0.05), look_levels([0.5, 0.75], 0.05, ends=True)
    assert early[0] == late[0]
    assert early[1] < late[1] < 0.05


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(1.01, 3.0, "faster"), (0.2, 0.99, "slower"), (0.87, 1.14, "equivalent"),
     (0.86, 1.1, None), (0.9, 1.16, None), (1.0, 2.0, None), (1.02, 1.1, "faster"),
     (math.nan, math.nan, None)],
)  # fmt: skip
def test_an_interval_decides_where_it_leaves_1_out_or_is_close_around_it(
    low: float, high: float, found: str | None
) -> None:
    assert decision(low, high, 0.15) == found


@pytest.mark.parametrize(
    ("first", "last", "looks", "times"),
    [(2, 4, 3, (2, 3, 4)), (2, 4, 1, (4,)), (2, 3, 5, (2, 3)), (4, 4, 3, (4,)),
     (1, 9, 3, (1, 5, 9))],
)  # fmt: skip
def test_looks_are_even_and_the_last_is_at_the_end(
    first: int, last: int, looks: int, times: tuple[int, ...]
) -> None:
    assert look_times(first, last, looks) == times
