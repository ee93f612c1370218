"""A year of faults: the mean over time, checked by hand and by a simulation of the same process."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.units import YEAR_S
from optimizer.performability import Fault, Level, Stage, expected_year

NORMAL = Level(goodput=1.0, mean_ms=20.0, demerits=0.0)
DOWN = Level(goodput=0.0, mean_ms=2000.0, demerits=4.0)
DEGRADED = Level(goodput=0.75, mean_ms=30.0, demerits=0.3)


def test_an_outage_of_an_hour_a_year_takes_its_share_of_everything() -> None:
    share = 3600.0 / YEAR_S
    year = expected_year(NORMAL, [Fault("crash", 1.0, (Stage(3600.0, DOWN),))], ideal_ms=20.0)
    assert year.goodput == pytest.approx(1.0 - share, abs=1e-15)
    assert year.demerits == year.demerits_added == pytest.approx(4.0 * share)
    assert year.lost == pytest.approx(share)
    assert year.punctuality == pytest.approx(20.0 / (20.0 + 1980.0 * share))
    assert year.hours == pytest.approx(1.0)
    [(name, lost)] = year.lost_by_fault
    assert name == "crash"
    assert lost == pytest.approx(share)


def test_without_faults_the_year_is_the_normal_level() -> None:
    year = expected_year(NORMAL, [], ideal_ms=15.0)
    assert (year.goodput, year.demerits, year.hours) == (1.0, 0.0, 0.0)
    assert year.punctuality == pytest.approx(0.75)


def test_the_sum_is_the_mean_of_a_simulated_service() -> None:
    """Poisson faults over a thousand years, second by second in their stages."""
    faults = [
        Fault("crash", 40.0, (Stage(30.0, DOWN), Stage(3600.0, DEGRADED))),
        Fault("link", 12.0, (Stage(600.0, DOWN),)),
    ]
    rng = np.random.default_rng(20261124)
    years, lost_s = 1000, 0.0
    for fault in faults:
        count = rng.poisson(fault.per_year * years)
        for stage in fault.stages:
            lost_s += count * stage.seconds * (1.0 - stage.level.goodput)
    year = expected_year(NORMAL, faults, ideal_ms=20.0)
    assert 1.0 - year.goodput == pytest.approx(lost_s / (years * YEAR_S), rel=0.05)
    assert year.lost_by_fault[0][0] == "crash"
    assert sum(lost for _, lost in year.lost_by_fault) == pytest.approx(1.0 - year.goodput)


def test_faults_that_would_overlap_are_refused() -> None:
    often = Fault("crash", 1000.0, (Stage(3600.0, DOWN),))
    with pytest.raises(InputError) as error:
        expected_year(NORMAL, [often], ideal_ms=20.0)
    assert "overlap" in error.value.expected
