"""Danger zones are found where they are, and not where an operation suffers as its device does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from core.config_file import ConfigFile, check
from core.errors import InputError
from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.kinds.limplock.judge.zones import Point, Zones, judge_zones, search

LONGEST_S = 1000.0
SEVERITIES = Zones(low=1.0, high=1000.0)


def _noisy(
    duration_s: Callable[[float], float], seed: int, spread: float = 0.1, repeats: int = 3
) -> Callable[[float], Sequence[Duration]]:
    """Repeats of an operation whose true duration is known, cut short after LONGEST_S."""
    rng = np.random.default_rng(seed)

    def measure(severity: float) -> list[Duration]:
        lengths_s = duration_s(severity) * np.exp(rng.normal(0.0, spread, repeats))
        return [
            Duration(min(float(length_s), LONGEST_S), bool(length_s >= LONGEST_S))
            for length_s in lengths_s
        ]

    return measure


@pytest.mark.parametrize("at", [1.7, 12.0, 37.0, 260.0, 800.0])
@pytest.mark.parametrize("factor", [30.0, 1e6], ids=["slow", "cut short"])
def test_a_jump_is_cornered_between_two_severities(at: float, factor: float) -> None:
    result = search(_noisy(lambda severity: 1.0 if severity < at else factor, seed=1), SEVERITIES)
    [zone] = result.zones
    assert zone.low <= at <= zone.high
    assert zone.narrow
    assert zone.worse
    assert zone.high / zone.low < SEVERITIES.width
    assert len(result.points) < SEVERITIES.budget


def test_a_worse_fault_that_is_detected_at_last_is_a_zone_too() -> None:
    result = search(_noisy(lambda severity: 2.0 if severity > 200.0 else 60.0, seed=2), SEVERITIES)
    [zone] = result.zones
    assert zone.low <= 200.0 <= zone.high
    assert not zone.worse
    assert zone.ratio.low > 20.0


def test_a_bump_has_a_zone_on_both_sides() -> None:
    result = search(
        _noisy(lambda severity: 80.0 if 20.0 < severity < 120.0 else 1.0, seed=3), SEVERITIES
    )
    assert [zone.worse for zone in result.zones] == [True, False]
    assert all(zone.narrow for zone in result.zones)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_what_suffers_as_its_device_does_has_no_zone(power: float) -> None:
    searches_with_zones = 0
    for seed in range(50):
        result = search(_noisy(lambda severity: severity**power, seed, spread=0.2), SEVERITIES)
        searches_with_zones += bool(result.zones)
    assert searches_with_zones == 0


def test_where_repeats_go_either_way_the_zone_is_from_the_last_sure_value_to_the_next() -> None:
    """Beyond 600 a detector sees the fault for sure, below 500 it never does."""
    points = [
        Point(severity, tuple(Duration(seconds, seconds >= 50.0) for seconds in waits))
        for severity, waits in (
            (211.0, (50.0, 50.0, 50.0)), (460.0, (50.0, 50.0, 50.0)),
            (558.0, (50.0, 50.0, 5.0)), (678.0, (6.0, 6.5, 7.0)), (1000.0, (4.0, 5.0, 6.0)),
        )
    ]  # fmt: skip
    result = judge_zones(points, SEVERITIES)
    [zone] = result.zones
    assert (zone.low, zone.high, zone.worse, zone.narrow) == (460.0, 678.0, False, True)
    assert result.open == ()


def test_a_budget_that_ends_early_leaves_a_wide_zone_or_says_that_it_is_open() -> None:
    short_search = SEVERITIES.model_copy(update={"budget": 5})
    steep_result = search(
        _noisy(lambda severity: 1.0 if severity < 37.0 else 900.0, seed=4), short_search
    )
    assert [zone.narrow for zone in steep_result.zones] == [False]
    hidden_result = search(
        _noisy(lambda severity: 1.0 if severity < 37.0 else 8.0, seed=4), short_search
    )
    assert (len(hidden_result.points), hidden_result.zones, len(hidden_result.open)) == (5, (), 1)


def test_two_repeats_are_too_few_to_tell_a_zone() -> None:
    result = search(
        _noisy(lambda severity: 1.0 if severity < 37.0 else 30.0, seed=5, repeats=2), SEVERITIES
    )
    assert result.zones == ()


def test_where_both_ends_were_cut_short_nothing_is_told() -> None:
    cut_durations = (Duration(50.0, at_least=True),) * 3
    result = judge_zones([Point(10.0, cut_durations), Point(100.0, cut_durations)], SEVERITIES)
    assert (result.zones, result.open) == ((), ())


def test_a_search_measures_no_more_than_its_budget() -> None:
    asked_severities: list[float] = []

    def wild(severity: float) -> list[Duration]:
        """A jump between any two severities that are asked for."""
        asked_severities.append(severity)
        return [Duration(10.0 ** (len(asked_severities) % 2))] * 3

    search(wild, SEVERITIES.model_copy(update={"width": 1.01}))
    assert len(asked_severities) == len(set(asked_severities)) == SEVERITIES.budget


@pytest.mark.parametrize(
    ("values", "key"),
    [({"low": 10.0, "high": 1.0}, "high"), ({"low": 1.0, "high": 9.0, "budget": 3}, "first")],
)
def test_an_axis_that_cannot_be_searched_is_refused(values: dict[str, float], key: str) -> None:
    with pytest.raises(InputError) as error:
        check(ConfigFile(Path("zones.toml"), dict(values)), Zones)
    assert key in error.value.place
