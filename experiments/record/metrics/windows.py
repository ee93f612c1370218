"""Turns the lines of events.jsonl into windows of time: phases, arms, faults, interference.

A window is two lines of the same (what, kind, machine, arm, repeat, id): `start` or `inject` opens
it, `end` or `revert` closes it. The runner may have died between the two, so a window that nobody
closed lasts for the `duration_s` that was announced, else to the end of the run, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]

OPENING = frozenset({"start", "inject"})
CLOSING = frozenset({"end", "revert"})


@dataclass(frozen=True)
class Window:
    """A stretch of the run, in seconds since its start; `closed` is False where no end was seen."""

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
        """Length of the window, never negative."""
        return max(0.0, self.end_s - self.start_s)


def windows(events: Iterable[Event], run_end_s: float) -> list[Window]:
    """All windows of a run in order of their start.

    Parameters: events as in events.jsonl, any order; run_end_s float [s], where open ones end.
    """
    ordered = sorted(
        (event for event in events if event.get("time_s") is not None),
        key=lambda event: float(event["time_s"]),  # stable: file order where times are equal
    )
    open_events: dict[tuple[Any, ...], list[Event]] = {}
    found: list[Window] = []
    for event in ordered:
        key = _identity(event)
        action = event.get("action")
        if action in OPENING:
            open_events.setdefault(key, []).append(event)
        elif action in CLOSING and open_events.get(key):
            opening = open_events[key].pop(0)
            found.append(_window(opening, float(event["time_s"]), closed=True))
    for left in open_events.values():
        for event in left:
            found.append(_window(event, _announced_end_s(event, run_end_s), closed=False))
    return sorted(found, key=lambda window: (window.start_s, window.end_s))


def of_kind(found: Sequence[Window], *what: str) -> list[Window]:
    """The windows whose `what` is one of those given."""
    return [window for window in found if window.what in what]


def _identity(event: Event) -> tuple[Any, ...]:
    """An id names a fault wholly; without one the other tags have to."""
    if event.get("id"):
        return (event.get("what"), event.get("machine"), event["id"])
    return tuple(event.get(key) for key in ("what", "kind", "machine", "arm", "repeat"))


def _announced_end_s(event: Event, run_end_s: float) -> float:
    start_s = float(event["time_s"])
    duration_s = event.get("duration_s")
    if duration_s:
        return min(max(run_end_s, start_s), start_s + float(duration_s))
    return max(run_end_s, start_s)


def _window(event: Event, end_s: float, *, closed: bool) -> Window:
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
