"""events.jsonl is checked line by line, and its windows end where the run does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.errors import InputError
from core.runfiles.events import read_events, run_end_s, windows, without_discarded

FAULT = {"time_s": 100.0, "what": "fault", "kind": "cpu.limp", "machine": "web-1", "id": "a"}
INJECTED: dict[str, Any] = {**FAULT, "action": "inject"}


def _file(tmp_path: Path, *lines: Any, after: str = "") -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + after)
    return path


def test_keys_of_a_later_version_are_kept(tmp_path: Path) -> None:
    later = {**INJECTED, "zone": "a", "parameters": {"factor": 10}}
    assert read_events(_file(tmp_path, later)) == [later]


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    assert read_events(_file(tmp_path, INJECTED, after='{"time_s": 101.0, "wh')) == [INJECTED]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"time_s": "soon"}, "time_s"),
        ({"time_s": True}, "time_s"),
        ({"repeat": "first"}, "repeat"),
        ({"duration_s": "long"}, "duration_s"),
        ({"parameters": 3}, "parameters"),
        ({"parameters": {"recovery_s": "soon"}}, "parameters.recovery_s"),
        ({"dose": {"asked": 1.0}}, "dose.measured"),
    ],
)
def test_a_value_of_another_type_is_refused_by_file_line_and_key(
    tmp_path: Path, change: dict[str, Any], key: str
) -> None:
    path = _file(tmp_path, INJECTED, {**INJECTED, **change})
    with pytest.raises(InputError) as error:
        read_events(path)
    assert error.value.place == f"{path} line 2: {key}"


def test_a_line_that_is_nested_too_deeply_is_refused_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError) as error:
        read_events(file)
    assert error.value.place == f"{file} line 1"


@pytest.mark.parametrize("key", ["time_s", "what", "kind", "machine", "action"])
def test_a_line_without_a_needed_key_is_refused(tmp_path: Path, key: str) -> None:
    path = _file(tmp_path, {name: value for name, value in INJECTED.items() if name != key})
    with pytest.raises(InputError) as error:
        read_events(path)
    assert error.value.place == f"{path} line 1: {key}"


@pytest.mark.parametrize(
    ("duration_s", "end_s"), [(None, 110.0), (5.0, 105.0), (60.0, 110.0), (0.0, 110.0)]
)
def test_a_fault_that_nobody_ended_lasts_as_announced_but_no_longer_than_the_run(
    duration_s: float | None, end_s: float
) -> None:
    (window,) = windows([{**INJECTED, "duration_s": duration_s}], 110.0)
    assert (window.start_s, window.end_s, window.closed) == (100.0, end_s, False)


def test_an_id_names_a_fault_whatever_the_other_tags_say() -> None:
    reverted = {**INJECTED, "action": "revert", "time_s": 104.0, "arm": "b", "repeat": 3}
    (window,) = windows([reverted, INJECTED], 110.0)
    assert (window.end_s, window.closed) == (104.0, True)


def test_events_of_a_block_that_was_set_aside_do_not_count() -> None:
    aside = {**INJECTED, "what": "block", "action": "spoiled", "repeat": 2}
    assert without_discarded([INJECTED, {**INJECTED, "repeat": 2}, aside]) == [INJECTED]


def test_a_run_ends_with_the_last_of_its_requests_events_and_manifest() -> None:
    requests = pl.DataFrame({"intended_s": [1.0, 9.0], "done_s": [1.5, None]})
    times = {"started_at": "2026-11-01T10:00:00+00:00", "ended_at": "2026-11-01T10:00:30+00:00"}
    assert run_end_s(requests, [], {}) == 9.0
    assert run_end_s(requests, [{"time_s": 12.0}], {}) == 12.0
    assert run_end_s(requests, [{"time_s": 12.0}], times) == 30.0
