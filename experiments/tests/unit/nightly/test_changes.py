"""Changes: found where they were planted, after a second night, and nowhere else."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.nightly.calibrate import detection, false_alarms, looked_at
from experiments.nightly.changes import changes, new_changes, shifts
from experiments.nightly.history import read_history
from experiments.tests.nightly_fixture import levels, made_up_run, write_nights


def test_a_planted_change_is_found_where_it_is_and_as_large_as_it_is() -> None:
    (shift,) = shifts(levels(40, change_at=25, size=-0.8, spread=0.1, seed=3))
    assert shift.at == 25
    assert shift.size == pytest.approx(-0.8, abs=0.1)
    assert shift.p < 1e-6


def test_one_night_is_no_change_and_the_next_confirms_it() -> None:
    values = levels(30, change_at=28, size=-1.0, spread=0.1, seed=5)
    assert shifts(values[:29]) == []
    assert [shift.at for shift in shifts(values)] == [28]


def test_a_single_bad_night_is_no_change() -> None:
    values = levels(40, change_at=40, size=0.0, spread=0.1, seed=6)
    values[20] -= 1.5
    assert shifts(values) == []


def test_a_change_too_small_to_care_is_none() -> None:
    assert shifts(levels(60, change_at=30, size=0.1, spread=0.005, seed=7)) == []


@pytest.mark.parametrize("count", [0, 1, 6])
def test_few_nights_say_nothing(count: int) -> None:
    assert shifts([0.0, 0.0, 0.0, 5.0, 5.0, 5.0][:count]) == []


def test_nights_that_are_all_the_same_have_no_change() -> None:
    assert shifts([0.5] * 30) == []


def test_large_changes_are_found_and_years_without_any_stay_quiet() -> None:
    rng = np.random.default_rng(20261123)
    share, delay = detection(rng, spread=0.2, factor=2.0, times=40)
    assert share >= 0.9
    assert 2 <= delay <= 6
    assert false_alarms(rng, spread=0.4, years=4) <= 1.0


def test_a_look_a_night_tells_a_change_once() -> None:
    values = np.array(levels(60, change_at=30, size=-1.0, spread=0.15, seed=8))
    near = [place for _, place in looked_at(values).alarms if abs(place - 30) <= 5]
    assert near == [30]


def _history(folder: Path, logs: list[float], digests: str = "") -> None:
    nights = [
        made_up_run(night, log=log, digest=f"d{digests[night - 1]}" if digests else "d1")
        for night, log in enumerate(logs, start=1)
    ]
    write_nights(folder, nights)


def test_a_change_names_night_commits_and_size(tmp_path: Path) -> None:
    _history(tmp_path, levels(30, change_at=20, size=-0.9, spread=0.1, seed=9))
    found = changes(read_history(tmp_path))
    assert {(change.statistic, change.night) for change in found} == {("p95", 21), ("p99", 21)}
    assert {change.commits for change in found} == {("c0020", "c0021")}
    assert found[0].factor == pytest.approx(math.exp(-0.9), rel=0.15)
    assert (found[0].nights_before, found[0].nights_after) == (20, 10)


def test_a_slower_host_alone_is_no_change(tmp_path: Path) -> None:
    slow = [made_up_run(night, log=log, p95_ms=300.0 if night < 15 else 900.0)
            for night, log in enumerate(levels(30, 30, 0.0, 0.1, seed=10), start=1)]  # fmt: skip
    write_nights(tmp_path, slow)
    assert changes(read_history(tmp_path)) == []


def test_a_design_that_was_changed_begins_anew(tmp_path: Path) -> None:
    logs = levels(30, change_at=15, size=-0.9, spread=0.1, seed=11)
    _history(tmp_path, logs, digests="1" * 15 + "2" * 15)
    assert changes(read_history(tmp_path)) == []


def test_nights_that_are_not_valid_do_not_count(tmp_path: Path) -> None:
    logs = levels(30, change_at=30, size=0.0, spread=0.1, seed=12)
    nights = [
        made_up_run(night, log=log - (2.0 if night > 24 else 0.0), valid=night <= 24)
        for night, log in enumerate(logs, start=1)
    ]
    write_nights(tmp_path, nights)
    assert changes(read_history(tmp_path)) == []


def test_a_change_is_new_once(tmp_path: Path) -> None:
    logs = levels(30, change_at=25, size=-0.9, spread=0.1, seed=13)
    _history(tmp_path, logs)
    first = new_changes(read_history(tmp_path))
    assert first
    again = tmp_path / "again"
    runs = [made_up_run(night, log=log) for night, log in enumerate(logs, start=1)]
    write_nights(again, runs, changes=tuple(change.identity for change in first))
    assert new_changes(read_history(again)) == []
    assert len(changes(read_history(again))) == len(first)
