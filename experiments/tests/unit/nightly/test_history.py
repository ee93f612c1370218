"""The history that nights are kept in, and the order that follows from it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.nightly.history import ASIDE, FILE, Run, Writer, read_history
from experiments.nightly.scheduling import Job, jobs
from experiments.nightly.suite import load_suite
from experiments.tests.nightly_fixture import made_up_run, suite_file, write_nights


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    nights = [made_up_run(1), made_up_run(2, log=0.7)]
    write_nights(tmp_path, nights)
    history = read_history(tmp_path)
    assert list(history.runs) == [run for night in nights for run in night]
    assert history.last_night == 2
    assert history.unfinished == ()
    assert history.notes == ()


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("two")
    write_nights(folder, [made_up_run(1), made_up_run(2)])
    return (folder / FILE).read_bytes()


@given(share=st.floats(0, 1))
def test_a_history_that_was_cut_anywhere_loses_no_byte(two_nights: bytes, share: float) -> None:
    cut = two_nights[: round(share * len(two_nights))]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / FILE).write_bytes(cut)
        notes = Writer(folder).notes
        history = (folder / FILE).read_bytes()
        aside = (folder / ASIDE).read_bytes() if (folder / ASIDE).exists() else b""
        assert bool(notes) == bool(aside)
        assert history + aside == cut + (b"" if cut.endswith(b"\n") or not cut else b"\n")
        assert history == b"" or history.endswith(b"\n")
        assert read_history(folder).notes == ()


def test_a_line_cut_short_is_set_aside_and_the_next_is_whole(tmp_path: Path) -> None:
    write_nights(tmp_path, [made_up_run(1)])
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes() + b'{"schema": 1, "what": "ru')
    writer = Writer(tmp_path)
    writer.append(*made_up_run(2))
    assert len(writer.notes) == 1
    assert (tmp_path / ASIDE).read_bytes() == b'{"schema": 1, "what": "ru\n'
    assert [run.night for run in read_history(tmp_path).runs] == [1, 1, 2, 2]


def test_lines_of_a_later_version_stay_and_are_named(tmp_path: Path) -> None:
    write_nights(tmp_path, [made_up_run(1)])
    later = json.dumps({"schema": 2, "what": "dream", "night": 1})
    file = tmp_path / FILE
    file.write_text(file.read_text() + later + "\nno line\n" + '{"schema": 1, "what": "run"}\n')
    Writer(tmp_path).append(*made_up_run(2))
    history = read_history(tmp_path)
    assert [run.night for run in history.runs] == [1, 1, 2, 2]
    assert [note.split(":")[1] for note in history.notes] == ["6", "7", "8"]
    assert later in file.read_text()


def test_a_key_of_a_later_version_does_no_harm(tmp_path: Path) -> None:
    run = made_up_run(1)[1]
    line = {**run.model_dump(mode="json", by_alias=True), "mood": "blue"}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    assert read_history(tmp_path).runs == (run,)


THREE = ("mediawiki-noisy", "memcached-noisy", "redis-noisy")


def _jobs(folder: Path, *designs: str) -> list[Job]:
    suite = load_suite(suite_file(folder, *designs))
    return jobs(suite.members, read_history(suite.folder))


def _names(job_list: list[Job]) -> list[str]:
    return [job.member.name for job in job_list]


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
    job_list = _jobs(tmp_path, "mediawiki-noisy: repeats = 2", "memcached-noisy")
    assert _names(job_list) == ["mediawiki-noisy", "memcached-noisy", "mediawiki-noisy"]


@pytest.mark.parametrize(
    ("seeds", "made", "expected"),
    [("override = { design = { seed = 7 } }", [], [7, 7]), ("seed = 40", [], [40, 41]),
     ("seed = 40", [40, 41], [42, 43]), ("seeds = [1, 2, 3]", [], [1, 2]),
     ("seeds = [1, 2, 3]", [1, 2], [3, 1]), ("seeds = [1, 2, 3]", [1, 2, 3], [1, 2])],
)  # fmt: skip
def test_seeds_take_turns(tmp_path: Path, seeds: str, made: list[int], expected: list[int]) -> None:
    nights = [made_up_run(night, seed=seed) for night, seed in enumerate(made, start=1)]
    write_nights(tmp_path / "nightly", nights)
    job_list = _jobs(tmp_path, f"mediawiki-noisy: repeats = 2; {seeds}")
    assert [job.seed for job in job_list] == expected


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
