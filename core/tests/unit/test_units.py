"""Times for people."""

from __future__ import annotations

import pytest

from core.units import duration


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0 s"),
        (0.25, "0.25 s"),
        (15.0, "15 s"),
        (90.0, "90 s"),
        (1_500.0, "25 min"),
        (3_600.0, "1 h"),
        (14_400.0, "4 h"),
        (86_400.0, "1 day"),
        (2 * 86_400.0, "2 days"),
        (1_000 * 86_400.0, "1,000 days"),
    ],
)
def test_a_time_is_told_in_the_unit_that_fits_it(seconds: float, told: str) -> None:
    assert duration(seconds) == told
