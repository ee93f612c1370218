"""The recorder of a run: all events on one clock, written to the run's files and to InfluxDB."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import polars as pl

from core.runfiles.events import Dose, Event, Parameters
from core.statistics.percentiles import OK
from experiments.design.schedule import Block
from experiments.record.records import ARBITERS, EventLog, RequestRecord, arbiter_rows
from experiments.record.telemetry import (
    Account,
    Annotations,
    InfluxWriter,
    Point,
    arbiter_points,
    look_point,
    request_point,
    verdict_point,
)
from experiments.record.telemetry.account import EVERY_S


@dataclass(frozen=True)
class Clock:
    """The run's t0 on the monotonic clock, by which all times are measured, and on the wall."""

    monotonic: float
    wall: datetime

    def since_s(self, monotonic: float) -> float:
        return monotonic - self.monotonic

    def wall_at(self, since_s: float) -> datetime:
        return self.wall + timedelta(seconds=since_s)

    def ns_at(self, since_s: float) -> int:
        """Return the same as Unix nanoseconds, InfluxDB's time."""
        return int(self.wall.timestamp() * 1e6) * 1000 + int(since_s * 1e9)


class Recorder:
    """Thread-safe; nothing here waits for InfluxDB."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        experiment: str,
        run: str,
        writer: InfluxWriter,
        account: Account,
    ) -> None:
        self.clock = clock
        self.events: list[Event] = []
        self._log = EventLog(folder / "events.jsonl")
        self._writer = writer
        self._names = {"experiment": experiment, "run": run}
        self._rows: list[dict[str, object]] = []
        self._previous: dict[str, dict[str, object]] = {}
        self._annotations = Annotations(self._names, clock.ns_at)
        self._account = account
        self._accounted_s = 0.0
        self._good = 0
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
        dose: Dose | None = None,
    ) -> None:
        """Append to events.jsonl and write the window (or mark) to InfluxDB.

        Parameters: asked, the requested time of a revert [monotonic s]; dose, its measured effect.
        """
        time_s = self.clock.since_s(monotonic)
        block = self.block
        line: Event = {
            "time_s": round(time_s, 6),
            "wall": self.clock.wall_at(time_s).isoformat(timespec="milliseconds"),
            "what": what,
            "kind": kind,
            "machine": machine,
            "arm": block.arm if block else "",
            "repeat": block.repeat if block else None,
            "action": action,
            "id": id,
            "parameters": cast(Parameters, dict(parameters or {})),
            "duration_s": duration_s,
            "text": text,
            "dose": dose,
            "asked_s": None if asked is None else round(self.clock.since_s(asked), 6),
        }
        with self._guard:
            self.events.append(line)
            self._log.append(line)
            self._writer.write([self._annotations.point(line)])

    def sample(
        self,
        monotonic: float,
        measurement: str,
        tags: Mapping[str, str],
        fields: Mapping[str, float],
    ) -> None:
        """Write a point of a kind's own measurement to InfluxDB; it is in no file."""
        time_ns = self.clock.ns_at(self.clock.since_s(monotonic))
        self._writer.write([Point(measurement, {**self._names, **tags}, fields, time_ns)])

    def requests(self, block: Block, records: Sequence[RequestRecord]) -> None:
        t0_ns = self.clock.ns_at(0.0)
        self._writer.write(
            request_point(record, block, self._account, t0_ns=t0_ns, **self._names)
            for record in records
        )
        self._good += sum(record["outcome"] == OK for record in records)

    def accounts(self, monotonic: float, block: Block, *, begins: bool = False) -> None:
        """Write the SLO's limits and the fleet's cost, every few seconds of a block.

        The cost is that since the last time, or since the block `begins`.
        """
        now_s = self.clock.since_s(monotonic)
        length_s = 0.0 if begins else now_s - self._accounted_s
        if begins or length_s >= EVERY_S:
            good_count, time_ns = 0 if begins else self._good, self.clock.ns_at(now_s)
            points = self._account.points(self._names, block.arm, time_ns, length_s, good_count)
            self._writer.write(points)
            self._accounted_s, self._good = now_s, 0

    def verdict(
        self, monotonic: float, kind: str, met: bool | None, reasons: Sequence[str]
    ) -> None:
        """Write the result of an arm, or of the run, so far as a mark in InfluxDB."""
        time_ns = self.clock.ns_at(self.clock.since_s(monotonic))
        self._writer.write([verdict_point(self._names, kind, met, reasons, time_ns)])

    def look(self, monotonic: float, title: str, text: str) -> None:
        """Write a look at the measurement so far as a mark in InfluxDB."""
        time_ns = self.clock.ns_at(self.clock.since_s(monotonic))
        self._writer.write([look_point(self._names, title, text, time_ns)])

    def arbiter(self, monotonic: float, tier: str, stats: dict[str, object]) -> None:
        time_s = self.clock.since_s(monotonic)
        with self._guard:
            self._rows.extend(arbiter_rows(time_s, stats))
            previous = self._previous.get(tier)
            self._previous[tier] = stats
        time_ns = self.clock.ns_at(time_s)
        self._writer.write(arbiter_points(stats, previous, time_ns=time_ns, **self._names))

    def arbiters(self) -> pl.DataFrame:
        """Return all polls in the form of arbiters.parquet."""
        with self._guard:
            return pl.DataFrame(self._rows, schema=ARBITERS)

    def close(self) -> None:
        """Close events.jsonl; the writer is its owner's."""
        self._log.close()
