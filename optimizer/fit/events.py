"""events.jsonl: what disturbed a run and when, one event a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError, require_number

_START, _END = ("start", "inject"), ("end", "revert")
_TIMES = ("recovery_s", "repair_s")  # parameters of a fail-over's or repair's end
_RUN_AGAIN = "Run the design again: without them nobody knows what was undisturbed."


@dataclass(frozen=True)
class Window:
    """A span of time [s since the run's start] on a machine."""

    machine: str
    start_s: float
    end_s: float
    kind: str = ""  # of neighbour or fault


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events, checked. Raises InputError for a file that is missing or damaged: without it,
    disturbed time would be taken for undisturbed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            str(path),
            expected="what disturbed the run and when, one JSON object a line",
            came=str(getattr(error, "strerror", None) or error),
            do=_RUN_AGAIN,
        ) from error
    events = [
        _event(f"{path} line {number}", line)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not events:  # a run without neighbours has events too: its arms and phases
        raise InputError(str(path), expected="the run's events", came="none", do=_RUN_AGAIN)
    return events


def _event(place: str, line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise InputError(place, expected="JSON", came=str(error)) from error
    if not isinstance(event, dict):
        raise InputError(place, expected="an object", came=line[:60])
    require_number(f"{place}: time_s", event.get("time_s"))
    if event.get("duration_s") is not None:
        require_number(f"{place}: duration_s", event["duration_s"])
    parameters = event.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError(f"{place}: parameters", expected="an object", came=repr(parameters))
    for name in _TIMES:
        if name in parameters:
            require_number(f"{place}: parameters.{name}", parameters[name])
    return event


def windows(events: list[dict[str, Any]], run_end_s: float) -> list[tuple[str, Window]]:
    """Interference and fault spans: a start (start or inject) and its end (end or revert)."""
    open_spans: dict[str, dict[str, Any]] = {}
    found: list[tuple[str, Window]] = []
    for event in events:
        if event.get("what") not in ("interference", "fault") or not event.get("machine"):
            continue
        key = repr([event.get(k) for k in ("what", "kind", "machine", "arm", "repeat", "id")])
        if event.get("action") in _START:
            open_spans[key] = event
        elif event.get("action") in _END and key in open_spans:
            start = open_spans.pop(key)
            found.append((event["what"], _window(start, float(event["time_s"]))))
    for event in open_spans.values():
        length_s = event.get("duration_s")
        last_s = run_end_s if length_s is None else event["time_s"] + length_s
        found.append((event["what"], _window(event, last_s)))
    return found


def sound(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those of blocks that were set aside and measured again."""
    aside = [event.get("repeat") for event in events if event.get("action") == "spoiled"]
    return [event for event in events if event.get("repeat") not in aside]


def _window(start: Mapping[str, Any], end_s: float) -> Window:
    machine, kind = str(start["machine"]), str(start.get("kind") or "")
    return Window(machine, float(start["time_s"]), end_s, kind)
