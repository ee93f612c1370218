"""The writer: a bounded queue of points, and a thread that delivers them in order, without loss.

While InfluxDB is away the thread appends to the spool and tries the spool's head again about each
flush interval; new points go behind the spooled ones. A batch that InfluxDB refuses (400) is halved
until the bad lines are isolated; they are counted and kept in a file beside the spool. A delivery
whose answer was lost is repeated, which does no harm (see spool.py).

What can be lost, and is counted as `lost`: points that find the spool full or its disk full while
InfluxDB is away. Not counted: up to a flush interval of points when the process is killed.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

import httpx

from experiments.record.telemetry.line import Point
from experiments.record.telemetry.spool import Spool
from grafana.address import client_of

DATABASE = "sparecraft"
BATCH_LINES = 5000
QUEUE_LINES = 100_000
SPOOL_BYTES = 256 * 1024 * 1024
FLUSH_S = 0.5
REQUEST_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class TelemetryStats:
    """Points by their fate: accepted = written + waiting + spooled + rejected + lost."""

    accepted: int = 0
    written: int = 0
    spooled: int = 0
    rejected: int = 0
    lost: int = 0
    last_error: str = ""

    @property
    def waiting(self) -> int:
        """Points still in memory."""
        return self.accepted - self.written - self.spooled - self.rejected - self.lost


class _Reply(Enum):
    TAKEN = auto()
    AWAY = auto()
    REFUSED = auto()


class InfluxWriter:
    """Writes to one database. `write` may be called from any thread."""

    def __init__(self, url: str, spool: Path) -> None:
        self.rejected_path = spool.with_suffix(".rejected.lp")
        self._client = client_of(url, REQUEST_TIMEOUT_S)
        self._spool = Spool(spool, SPOOL_BYTES)
        self._queue: queue.Queue[bytes] = queue.Queue(QUEUE_LINES)
        self._lock = threading.Lock()
        self._stats = TelemetryStats(accepted=self._spool.lines, spooled=self._spool.lines)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="influx-writer", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> TelemetryStats:
        with self._lock:
            return self._stats

    def write(self, points: Iterable[Point]) -> None:
        """Queue points. Blocks only while QUEUE_LINES points wait, which a spool soon ends."""
        if self._closing.is_set():
            raise RuntimeError("the writer is closed")
        for point in points:
            line = point.line()
            self._count(accepted=1)
            self._queue.put(line)

    def close(self, deadline_s: float) -> TelemetryStats:
        """Deliver what is left, for at most about `deadline_s`; the rest stays in the spool."""
        self._closing.set()
        self._wake.set()
        self._thread.join(deadline_s)
        self._give_up.set()
        self._wake.set()
        self._thread.join()
        self._client.close()
        return self.stats

    def _run(self) -> None:
        while not self._give_up.is_set():
            try:
                self._turn()
            except OSError as error:  # the spool cannot be read or removed; try again
                self._count(error=f"{self._spool.path}: {error}")
            if self._closing.is_set() and self._queue.empty() and not self._spool.lines:
                return
            if self._queue.qsize() < BATCH_LINES:
                self._wake.wait(FLUSH_S)
                if self._closing.is_set():
                    self._give_up.wait(FLUSH_S if self._spool.lines else 0)
        while batch := self._take():
            self._keep(batch)

    def _turn(self) -> None:
        """Deliver the spool, then the queue; undelivered points go to the spool."""
        while self._spool.lines and not self._give_up.is_set():
            head = self._spool.head(BATCH_LINES)
            if self._post(head) is _Reply.AWAY:
                break
            self._spool.advance(head)
            self._count(spooled=-len(head))
        while batch := self._take():
            if self._spool.lines or self._post(batch) is _Reply.AWAY:
                self._keep(batch)

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        while len(batch) < BATCH_LINES:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _keep(self, batch: list[bytes]) -> None:
        try:
            self._spool.append(batch)
        except OSError as error:
            self._count(lost=len(batch), error=f"{self._spool.path}: {error}")
        else:
            self._count(spooled=len(batch))

    def _post(self, lines: list[bytes]) -> _Reply:
        """Deliver lines, all or none, except those that are refused for good."""
        reply, error = self._send(lines)
        if reply is _Reply.TAKEN:
            self._count(written=len(lines))
        elif reply is _Reply.AWAY:
            self._count(error=error)
        elif len(lines) == 1:
            self._reject(lines[0], error)
        else:
            return self._post_halves(lines)
        return reply

    def _post_halves(self, lines: list[bytes]) -> _Reply:
        """Deliver each half of a refused batch; spooled where InfluxDB goes away."""
        middle = len(lines) // 2
        for half in (lines[:middle], lines[middle:]):
            if self._post(half) is _Reply.AWAY:
                self._keep(half)
        return _Reply.TAKEN

    def _send(self, lines: list[bytes]) -> tuple[_Reply, str]:
        try:
            response = self._client.post(
                "/write", params={"db": DATABASE, "precision": "ns"}, content=b"\n".join(lines)
            )
        except httpx.HTTPError as error:
            return _Reply.AWAY, f"{type(error).__name__}: {error}"
        if response.status_code == 204:
            return _Reply.TAKEN, ""
        answer = f"HTTP {response.status_code}: {response.text.strip()[:300]}"
        refused = response.status_code in (400, 413, 422)
        return (_Reply.REFUSED if refused else _Reply.AWAY), answer

    def _reject(self, line: bytes, error: str) -> None:
        self._count(rejected=1, error=error)
        try:
            with self.rejected_path.open("ab") as file:
                file.write(line + b"\n")
        except OSError as failure:
            self._count(error=f"{error}; and {self.rejected_path}: {failure}")

    def _count(self, *, error: str = "", **changes: int) -> None:
        """Add to the counts of the statistics, by name; keep the error."""
        with self._lock:
            stats = self._stats
            counts: dict[str, Any] = {name: getattr(stats, name) + n for name, n in changes.items()}
            self._stats = replace(stats, last_error=error or stats.last_error, **counts)
