"""The first runs of a night: what was left out, what is oldest, what is least certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.nightly.history import Run, read_history
from experiments.nightly.scheduling import Job, jobs
from experiments.nightly.suite import load_suite
from experiments.tests.nightly_fixture import made_up_run, suite_file, write_nights

THREE = ("mediawiki-noisy", "memcached-noisy", "redis-noisy")


def _jobs(folder: Path, *designs: str) -> list[Job]:
    suite = load_suite(suite_file(folder, *designs))
    return jobs(suite.members, read_history(suite.folder))


def _names(found: list[Job]) -> list[str]:
    return [job.member.name for job in found]


def _numbered(*runs: list[Run]) -> list[Run]:
    """Several runs of one night."""
    return [
        line.model_copy(update={"number": number})
        for number, lines in enumerate(runs, start=1)
        for line in lines
    ]


def test_without_a_history_the_order_is_the_suite_s(tmp_path: Path) -> None:
    assert _names(_jobs(tmp_path, *THREE)) == list(THREE)


def test_what_was_valid_longest_ago_comes_first(tmp_path: Path) -> None:
    nights = [
        made_up_run(1, "redis-noisy"),
        made_up_run(2, "mediawiki-noisy"),
        _numbered(made_up_run(3, "memcached-noisy"), made_up_run(3, "redis-noisy", valid=False)),
    ]
    write_nights(tmp_path / "nightly", nights, THREE)
    assert _names(_jobs(tmp_path, *THREE)) == ["redis-noisy", "mediawiki-noisy", "memcached-noisy"]


def test_of_the_same_age_the_least_certain_comes_first(tmp_path: Path) -> None:
    errors = {"mediawiki-noisy": 0.1, "memcached-noisy": 0.5, "redis-noisy": 0.3}
    night = _numbered(*(made_up_run(1, name, error=error) for name, error in errors.items()))
    write_nights(tmp_path / "nightly", [night], THREE)
    assert _names(_jobs(tmp_path, *THREE)) == ["memcached-noisy", "redis-noisy", "mediawiki-noisy"]


def test_what_was_left_out_comes_before_what_is_older(tmp_path: Path) -> None:
    nights = [made_up_run(1, "redis-noisy"), made_up_run(2, "mediawiki-noisy")]
    write_nights(tmp_path / "nightly", nights, THREE, left_out=("mediawiki-noisy",))
    assert _names(_jobs(tmp_path, *THREE))[0] == "mediawiki-noisy"


def test_a_second_run_comes_after_everybody_s_first(tmp_path: Path) -> None:
    found = _jobs(tmp_path, "mediawiki-noisy: repeats = 2", "memcached-noisy")
    assert _names(found) == ["mediawiki-noisy", "memcached-noisy", "mediawiki-noisy"]


@pytest.mark.parametrize(
    ("seeds", "made", "expected"),
    [
        ("override = { design = { seed = 7 } }", [], [7, 7]),
        ("seed = 40", [], [40, 41]),
        ("seed = 40", [40, 41], [42, 43]),
        ("seeds = [1, 2, 3]", [], [1, 2]),
        ("seeds = [1, 2, 3]", [1, 2], [3, 1]),
        ("seeds = [1, 2, 3]", [1, 2, 3], [1, 2]),
    ],
)
def test_seeds_take_turns(tmp_path: Path, seeds: str, made: list[int], expected: list[int]) -> None:
    nights = [made_up_run(night, seed=seed) for night, seed in enumerate(made, start=1)]
    write_nights(tmp_path / "nightly", nights)
    found = _jobs(tmp_path, f"mediawiki-noisy: repeats = 2; {seeds}")
    assert [job.seed for job in found] == expected


def test_two_runs_of_a_night_have_two_seeds_where_nothing_states_one(tmp_path: Path) -> None:
    first, second = _jobs(tmp_path, "mediawiki-noisy: repeats = 2")
    assert first.seed != second.seed


def test_how_long_a_run_takes_is_learnt_of_the_design_as_it_is_now(tmp_path: Path) -> None:
    digest = load_suite(suite_file(tmp_path, "mediawiki-noisy")).members[0].digest
    nights = [
        made_up_run(1, minutes=500.0),
        *(made_up_run(night, minutes=minutes, digest=digest)
          for night, minutes in enumerate((11.0, 10.0, 12.0), start=2)),
    ]  # fmt: skip
    write_nights(tmp_path / "nightly", nights)
    job = _jobs(tmp_path, "mediawiki-noisy")[0]
    assert job.minutes == 11.0
    assert job.minutes_max == 43.0
    assert _jobs(tmp_path, "mediawiki-noisy: minutes_max = 15")[0].minutes_max == 15
