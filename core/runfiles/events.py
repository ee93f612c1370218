"""events.jsonl: the events of a run, one per line, and windows of time.

A window is two lines of the same disturbance: `start` or `inject` opens it, `end` or `revert`
closes it. The runner may have died between the two. So a window without an end lasts for its
announced `duration_s`, but no longer than the run, and is marked as open.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from core.errors import InputError
from core.runfiles.checked import TOLERANT, validate

if TYPE_CHECKING:
    import polars as pl

OPENING = frozenset({"start", "inject"})
CLOSING = frozenset({"end", "revert"})
DISCARDED = "spoiled"  # the action of an event that sets its block aside


@with_config(TOLERANT)
class Dose(TypedDict):
    """One act of a fault or neighbour; a node agent tells it with more keys.

    `asked` and `measured` in `unit`, None where nothing was asked or could be measured; `bit` None
    where the evidence is too thin; `problem` says why the last look saw nothing, or what it saw.
    """

    asked: float | None
    measured: float | None
    unit: str
    how: str
    bit: bool | None
    samples: int
    seconds: float
    problem: str | None


@with_config(TOLERANT)
class Parameters(TypedDict, total=False):
    """Of a fault, or of the end of a fail-over or repair; each kind has its own keys."""

    recovery_s: float
    repair_s: float
    to_pool: bool


@with_config(TOLERANT)
class Event(TypedDict):
    """One line; times in seconds since the run's t0. A later version may add keys."""

    time_s: float
    what: str
    kind: str
    machine: str
    action: str
    wall: NotRequired[str]
    arm: NotRequired[str]
    repeat: NotRequired[int | None]
    id: NotRequired[str]
    parameters: NotRequired[Parameters]
    duration_s: NotRequired[float | None]
    text: NotRequired[str]
    asked_s: NotRequired[float | None]
    dose: NotRequired[Dose | None]


@dataclass(frozen=True)
class Window:
    """A stretch of the run [s since its start]; `closed` is False without an end."""

    what: str
    kind: str
    machine: str
    arm: str
    repeat: int | None
    start_s: float
    end_s: float
    closed: bool
    text: str

    @property
    def duration_s(self) -> float:
        """Length of the window [s], never negative."""
        return max(0.0, self.end_s - self.start_s)


E = TypeVar("E", bound=Mapping[str, Any])


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Return number and value of each line of a file, except a last line that a crash cut short.

    Raises: InputError if the file cannot be read or a line is no JSON.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise InputError(
            str(path),
            expected="one JSON object a line",
            got=str(error.strerror or error),
            hint="Run the design again.",
        ) from error
    for number, line in enumerate(lines, start=1):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} line {number}", expected="JSON", got=str(error)) from error


def read_events(path: Path) -> list[Event]:
    """Return the events of a run. Raises InputError with file, line and key."""
    return [
        validate(
            _adapter(), line, f"{path} line {number}", "Run the design again, or take another."
        )
        for number, line in json_lines(path)
    ]


def without_discarded(events: Iterable[E]) -> list[E]:
    """Return the events without those of discarded blocks (`kinds/compare/retry.py`)."""
    all_events = list(events)
    discarded_repeats = {
        event.get("repeat") for event in all_events if event.get("action") == DISCARDED
    }
    return [event for event in all_events if event.get("repeat") not in discarded_repeats]


def run_end_s(
    requests: pl.DataFrame, events: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> float:
    """Return the end of a run [s since its start]."""
    import polars as pl

    ends = [float(event["time_s"]) for event in events]
    if requests.height:
        ends.append(float(requests.select(pl.max_horizontal("intended_s", "done_s").max()).item()))
    try:
        started = datetime.fromisoformat(str(manifest.get("started_at")))
        ended = datetime.fromisoformat(str(manifest.get("ended_at")))
        ends.append((ended - started).total_seconds())
    except (ValueError, TypeError):  # an interrupted run may have no end, or a naive one
        pass
    return max(ends, default=0.0)


def windows(events: Iterable[Mapping[str, Any]], end_s: float) -> list[Window]:
    """Return all windows of a run in order of their start.

    Parameters: events as in events.jsonl, in any order; end_s, the run's end [s since its start]
    (`run_end_s`).
    """
    ordered = sorted(events, key=lambda event: float(event["time_s"]))  # stable where times tie
    open_events: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    run_windows: list[Window] = []
    for event in ordered:
        key = _identity(event)
        action = event.get("action")
        if action in OPENING:
            open_events.setdefault(key, []).append(event)
        elif action in CLOSING and open_events.get(key):
            opening = open_events[key].pop(0)
            run_windows.append(_window(opening, float(event["time_s"]), closed=True))
    for unclosed in open_events.values():
        for event in unclosed:
            run_windows.append(_window(event, _announced_end_s(event, end_s), closed=False))
    return sorted(run_windows, key=lambda window: (window.start_s, window.end_s))


def of_kind(run_windows: Sequence[Window], *subjects: str) -> list[Window]:
    """Return the windows whose `what` is one of `subjects`."""
    return [window for window in run_windows if window.what in subjects]


@cache
def _adapter() -> TypeAdapter[Event]:
    return TypeAdapter(Event)


def _identity(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a window: its id, or without one its other tags."""
    if event.get("id"):
        return (event.get("what"), event.get("machine"), event["id"])
    return tuple(event.get(key) for key in ("what", "kind", "machine", "arm", "repeat"))


def _announced_end_s(event: Mapping[str, Any], end_s: float) -> float:
    start_s = float(event["time_s"])
    announced_s = event.get("duration_s") or math.inf
    return min(max(end_s, start_s), start_s + float(announced_s))


def _window(event: Mapping[str, Any], end_s: float, *, closed: bool) -> Window:
    repeat = event.get("repeat")
    return Window(
        what=str(event.get("what") or ""),
        kind=str(event.get("kind") or ""),
        machine=str(event.get("machine") or ""),
        arm=str(event.get("arm") or ""),
        repeat=None if repeat is None else int(repeat),
        start_s=float(event["time_s"]),
        end_s=end_s,
        closed=closed,
        text=str(event.get("text") or ""),
    )
