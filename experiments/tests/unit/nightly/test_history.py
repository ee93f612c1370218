"""The history: appended, synced, never lost, whatever cut it short or wrote it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.nightly.history import ASIDE, FILE, Writer, read_history
from experiments.tests.nightly_fixture import made_up_run, write_nights


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
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / FILE).write_bytes(cut)
        notes = Writer(folder).notes
        kept = (folder / FILE).read_bytes()
        aside = (folder / ASIDE).read_bytes() if (folder / ASIDE).exists() else b""
        assert bool(notes) == bool(aside)
        assert kept + aside == cut + (b"" if cut.endswith(b"\n") or not cut else b"\n")
        assert kept == b"" or kept.endswith(b"\n")
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
