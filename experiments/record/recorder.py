"""Puts everything that happens in a run on one clock, into the run's files and into InfluxDB."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from experiments.design.schedule import Block
from experiments.record.records import ARBITERS, EventLog, RequestRecord, arbiter_rows
from experiments.record.telemetry import InfluxWriter, Point, arbiter_points, request_point

_EVENT_KEYS = ("what", "kind", "machine", "arm", "repeat", "action", "id")


@dataclass(frozen=True)
class Clock:
    """The run's t0 on the monotonic clock, which everything is measured on, and on the wall."""

    monotonic: float
    wall: datetime

    def since_s(self, monotonic: float) -> float:
        """Seconds since t0."""
        return monotonic - self.monotonic

    def wall_at(self, since_s: float) -> datetime:
        """The wall time of a time since t0."""
        return self.wall + timedelta(seconds=since_s)

    def ns_at(self, since_s: float) -> int:
        """The same as Unix nanoseconds, InfluxDB's time."""
        return int(self.wall.timestamp() * 1e6) * 1000 + int(since_s * 1e9)


class Recorder:
    """Thread-safe; nothing here waits for InfluxDB."""

    def __init__(
        self, folder: Path, clock: Clock, experiment: str, run: str, writer: InfluxWriter
    ) -> None:
        self.clock = clock
        self.events: list[dict[str, Any]] = []
        self._log = EventLog(folder / "events.jsonl")
        self._writer = writer
        self._names = {"experiment": experiment, "run": run}
        self._rows: list[dict[str, Any]] = []
        self._previous: dict[str, dict[str, Any]] = {}
        self._open: dict[tuple[Any, ...], float] = {}
        self._guard = threading.Lock()
        self.block: Block | None = None

    def event(
        self,
        monotonic: float,
        *,
        what: str,
        kind: str,
        action: str,
        machine: str = "",
        id: str = "",  # the file's key
        parameters: Mapping[str, Any] | None = None,
        duration_s: float | None = None,
        text: str = "",
        asked: float | None = None,
    ) -> None:
        """Append to events.jsonl and write the window (or mark) to InfluxDB.

        Parameters: asked, of a revert, when it was to be [monotonic s].
        """
        time_s = self.clock.since_s(monotonic)
        block = self.block
        line = {
            "time_s": round(time_s, 6),
            "wall": self.clock.wall_at(time_s).isoformat(timespec="milliseconds"),
            "what": what,
            "kind": kind,
            "machine": machine,
            "arm": block.arm if block else "",
            "repeat": block.repeat if block else None,
            "action": action,
            "id": id,
            "parameters": dict(parameters or {}),
            "duration_s": duration_s,
            "text": text,
            "asked_s": None if asked is None else round(self.clock.since_s(asked), 6),
        }
        with self._guard:
            self.events.append(line)
            self._log.append(line)
            self._annotate(line)

    def requests(self, block: Block, records: Sequence[RequestRecord]) -> None:
        """Live samples of a block."""
        t0_ns = self.clock.ns_at(0.0)
        self._writer.write(
            request_point(record, block, t0_ns=t0_ns, **self._names) for record in records
        )

    def arbiter(self, monotonic: float, tier: str, stats: dict[str, Any]) -> None:
        """One poll of an arbiter."""
        time_s = self.clock.since_s(monotonic)
        with self._guard:
            self._rows.extend(arbiter_rows(time_s, stats))
            previous = self._previous.get(tier)
            self._previous[tier] = stats
        time_ns = self.clock.ns_at(time_s)
        self._writer.write(arbiter_points(stats, previous, time_ns=time_ns, **self._names))

    def arbiters(self) -> pl.DataFrame:
        """All polls, as arbiters.parquet has them."""
        with self._guard:
            return pl.DataFrame(self._rows, schema=ARBITERS)

    def close(self) -> None:
        """Close events.jsonl; the writer is its owner's."""
        self._log.close()

    def _annotate(self, line: Mapping[str, Any]) -> None:
        """Write a window's start when it opens, and over it, with its end, when it closes."""
        machine = line["machine"] or "all"
        key = tuple(line[name] for name in _EVENT_KEYS if name != "action")
        time_s = float(line["time_s"])
        opens = line["action"] in ("start", "inject")
        closes = line["action"] in ("end", "revert")
        start_s = self._open.pop(key, time_s) if closes else time_s
        if opens:
            self._open[key] = time_s
        title = " ".join(part for part in (line["kind"], line["machine"]) if part)
        if line["action"] == "error":
            title = f"error: {title}"
        end = {
            "duration_ms": (time_s - start_s) * 1e3,
            "end_ms": self.clock.ns_at(time_s) // 1_000_000,
        }
        tags = {**self._names, "what": line["what"], "kind": line["kind"], "machine": machine}
        fields = {"title": title, "text": line["text"] or title, **(end if closes else {})}
        self._writer.write([Point("event", tags, fields, self.clock.ns_at(start_s))])
