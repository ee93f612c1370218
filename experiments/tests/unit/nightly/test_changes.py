"""Changes: found where they were planted, after a second night, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from experiments.nightly.calibrate import detection, false_alarms, find_alarms
from experiments.nightly.changes import Watch, changes, new_changes, shifts
from experiments.nightly.history import Run, read_history
from experiments.nightly.levels import PERCENTILES
from experiments.nightly.planted import PLANTED, made_up_nights, report_changes
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


@pytest.mark.parametrize("count", [0, 1, 6])
def test_few_nights_one_bad_one_none_that_differs_and_too_small_a_change_are_none(
    count: int,
) -> None:
    assert shifts([0.0, 0.0, 0.0, 5.0, 5.0, 5.0][:count]) == []
    values = levels(40, change_at=40, size=0.0, spread=0.1, seed=6)
    values[20] -= 1.5
    assert shifts(values) == []
    assert shifts(levels(60, change_at=30, size=0.1, spread=0.005, seed=7)) == []
    assert shifts([0.5] * 30) == []


def test_large_changes_are_found_and_years_without_any_stay_quiet() -> None:
    rng = np.random.default_rng(20261123)
    share, delay = detection(rng, spread=0.2, factor=2.0, times=40)
    assert share >= 0.9
    assert 2 <= delay <= 6
    assert false_alarms(rng, spread=0.4, years=4) <= 1.0


def test_a_look_a_night_tells_a_change_once() -> None:
    values = np.array(levels(60, change_at=30, size=-1.0, spread=0.15, seed=8))
    near = [index for _, index, _ in find_alarms(values).alarms if abs(index - 30) <= 5]
    assert near == [30]


def _history(folder: Path, logs: list[float], digests: str = "") -> None:
    nights = [
        made_up_run(night, log=log, digest=f"d{digests[night - 1]}" if digests else "d1")
        for night, log in enumerate(logs, start=1)
    ]
    write_nights(folder, nights)


def test_a_change_names_night_commits_and_size(tmp_path: Path) -> None:
    _history(tmp_path, levels(30, change_at=20, size=-0.9, spread=0.1, seed=9))
    change_list = changes(read_history(tmp_path))
    assert {change.key.split("/")[-1] for change in change_list} >= {"gain_p95", "gain_p99"}
    assert {change.night for change in change_list} == {21}
    assert {change.commits for change in change_list} == {("c0020", "c0021")}
    assert change_list[0].factor == pytest.approx(math.exp(-0.9), rel=0.15)
    assert (change_list[0].nights_before, change_list[0].nights_after) == (20, 10)


PLANTED_BY_NAME = {planted.words: planted for planted in PLANTED}
LATENCIES = {f"{arm}/{name}_ms/up" for arm in ("baseline", "replicated") for name in PERCENTILES}


def _told(name: str) -> dict[str, int]:
    """Plant one change; return the night in which each change is reported."""
    identities_by_night = report_changes(made_up_nights(PLANTED_BY_NAME[name]), lambda *_: None)
    return {
        identity.removeprefix("mediawiki-noisy/"): night
        for night, identities in identities_by_night.items()
        for identity in identities
    }


def _figures(identities: Iterable[str]) -> set[str]:
    return {identity.partition("@")[0] for identity in identities}


SLOWER = {f"{name}@31": 32 for name in LATENCIES}


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("nothing", {}),
        ("planned and measured cost three times as high",
         {"plan_usd_per_month/up@31": 32, "baseline/usd_per_million_good/up@31": 32,
          "replicated/usd_per_million_good/up@31": 32}),
        ("errors from 0 to 9 of 960 in both arms",
         {"baseline/errors/up@31": 32, "replicated/errors/up@31": 32}),
    ],
)  # fmt: skip
def test_a_planted_change_is_told_in_the_second_night_and_nothing_else(
    planted: str, expected: dict[str, int]
) -> None:
    assert _told(planted) == expected


def test_both_arms_slower_are_told_in_the_second_night() -> None:
    night_by_identity = _told("both arms 4.5 times slower")
    assert SLOWER.items() <= night_by_identity.items()
    assert not any("gain" in identity for identity in night_by_identity)


def test_a_recovery_is_told_of_two_nights_that_were_slower() -> None:
    figures = _figures(_told("both arms 4.5 times slower, for two nights"))
    assert figures >= LATENCIES | {name.replace("/up", "/down") for name in LATENCIES}


def test_a_slower_host_is_no_slower_fleet_but_burns_its_budget() -> None:
    figures = _figures(_told("the host 3 times slower, and the fleet with it"))
    assert figures == {"replicated/burn_p95/up", "replicated/slo_met/down"}


def test_a_faster_host_that_moves_no_latency_is_no_change(tmp_path: Path) -> None:
    values = levels(30, 30, 0.0, 0.1, seed=10)
    nights = [
        made_up_run(night, p95_ms=300 * math.exp(value), reference_per_s=14.0 * (1 + (night > 15)))
        for night, value in enumerate(values, start=1)
    ]
    write_nights(tmp_path, nights)
    assert changes(read_history(tmp_path)) == []


def _capacity(night: int, nodt_per_s: float, speed: float = 1.0) -> list[Run]:
    levels = {"nodt_per_s/wiki": nodt_per_s, "utilisation/wiki": 0.9}
    (run, _) = made_up_run(night, "cache", kind="capacity", levels=levels, judged=None, slo={},
                           reference_per_s=14.0 * speed, baseline=None, plan={})  # fmt: skip
    return [run.model_copy(update={"arm": None, "p50": None, "p95": None, "p99": None})]


@pytest.mark.parametrize(("speed", "told"), [(1.0, {"cache/nodt_per_s/wiki/down"}), (0.5, set())])
def test_half_of_nodt_is_a_change_but_on_half_a_host(
    tmp_path: Path, speed: float, told: set[str]
) -> None:
    nights = [
        _capacity(night, *((400.0, 1.0) if night < 15 else (200.0, speed)))
        for night in range(1, 25)
    ]
    write_nights(tmp_path, nights, ["cache"])
    figures = {change.identity.partition("@")[0] for change in changes(read_history(tmp_path))}
    assert figures == told


def test_what_is_told_is_the_suite_s_to_set(tmp_path: Path) -> None:
    _history(tmp_path, levels(30, change_at=20, size=-0.3, spread=0.01, seed=9))
    history = read_history(tmp_path)
    assert changes(history)
    for watch in (Watch(size_min=1.5), Watch(p_max=1e-60), Watch(nights_min=21)):
        assert changes(history, watch) == []


def test_nights_that_hang_together_raise_few_false_alarms() -> None:
    rng = np.random.default_rng(20261128)
    assert false_alarms(rng, 0.2, years=3, correlation=0.6) <= 3.0


def test_nights_that_are_not_valid_or_of_another_design_do_not_count(tmp_path: Path) -> None:
    logs = levels(30, change_at=15, size=-0.9, spread=0.1, seed=11)
    _history(tmp_path / "changed", logs, digests="1" * 15 + "2" * 15)
    assert changes(read_history(tmp_path / "changed")) == []
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
    first_changes = new_changes(read_history(tmp_path))
    assert first_changes
    again = tmp_path / "again"
    runs = [made_up_run(night, log=log) for night, log in enumerate(logs, start=1)]
    write_nights(again, runs, changes=tuple(change.identity for change in first_changes))
    assert new_changes(read_history(again)) == []
    assert len(changes(read_history(again))) == len(first_changes)
