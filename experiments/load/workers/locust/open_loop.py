"""The open loop: every request leaves at its own time, whatever became of those before it.

Locust users wait for an answer before they go on, so a stalled server also stalls the arrivals, and
the worst requests are never sent (coordinated omission). Here one Locust user walks the drawn
schedule and starts a greenlet for each arrival; latency counts from the intended start.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from gevent import monkey

from experiments.load.clients import clients_of
from experiments.load.plan import LoadPlan
from experiments.load.workers.locust.timer import Alarm

FLUSH_S = 0.25


class Records(ABC):
    """Records as lines of JSON, passed on by a greenlet that never holds up a request."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def append(self, record: dict[str, Any]) -> None:
        """Queue one record."""
        self._lines.append(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    @abstractmethod
    def flush(self) -> None:
        """Pass on what is queued."""

    def flush_forever(self) -> None:
        """The greenlet."""
        while True:
            gevent.sleep(FLUSH_S)
            self.flush()


class RecordFile(Records):
    """Appends records to a file.

    A killed generator loses what came in the last FLUSH_S. On a full disk the lines wait in memory
    (there are at most as many as arrivals) and are tried again.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._rest = b""
        self.error: str | None = None

    def append_line(self, line: bytes) -> None:
        """Queue a record that is a line already, as another process made it."""
        self._lines.append(line)

    @property
    def waiting(self) -> int:
        """Records that are not in the file yet."""
        return len(self._lines) + self._rest.count(b"\n")

    def flush_forever(self) -> None:
        """The greenlet: write what has come, off the event loop."""
        pool = gevent.get_hub().threadpool
        while True:
            gevent.sleep(FLUSH_S)
            if self._lines or self._rest:
                pool.apply(self.flush)

    def flush(self) -> None:
        """Write what is queued; a failure is kept in `error`, and nothing is dropped."""
        lines, self._lines = self._lines, []
        data = self._rest + b"".join(lines)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            self.error = None
        except OSError as error:
            self.error = f"{error.strerror}"
        self._rest = data

    def close(self) -> None:
        """Write the rest and close."""
        self.flush()
        os.close(self._file)


class OpenLoop:
    """Walks one plan. All its times are seconds since the run's t0."""

    def __init__(
        self,
        plan: LoadPlan,
        *,
        clock: Callable[[], float],  # time.monotonic, which the waits go by
        record: Callable[[dict[str, Any]], None],
    ) -> None:
        assert monkey.is_module_patched("socket"), "run under Locust, which patches sockets"
        self._plan = plan
        self._t0_s = self._start_s = 0.0
        self._clock = clock
        self._record = record
        self._clients = clients_of(plan, clock)
        self._requests = {
            (url, place): (
                self._clients[url].request(operation.request),
                operation.check.encode(),
            )
            for place, operation in enumerate(plan.operations)
            for url in plan.entries[operation.entry]
        }
        self._flying: set[gevent.Greenlet] = set()
        self._stopped = False
        self._defect: Exception | None = None  # of a client
        self.launched = 0
        self.recorded = 0

    def run(self, t0_s: float, start_s: float) -> None:
        """Launch every arrival at its time, then wait for those in flight, which limits bound.

        Raises: whatever a client raised, which ends it early.
        """
        self._t0_s, self._start_s = t0_s, start_s
        alarm = Alarm()
        try:
            self._launch_all(alarm)
        finally:
            alarm.close()
        gevent.joinall(list(self._flying))
        if self._defect:
            raise self._defect
        rest_s = self._t0_s + self._start_s + self._plan.length_s - self._clock()
        if rest_s > 0 and not self._stopped:
            gevent.sleep(rest_s)

    def _launch_all(self, alarm: Alarm) -> None:
        begin_s = self._t0_s + self._start_s
        for index, offset_s in enumerate(self._plan.offsets_s):
            if begin_s + offset_s > self._clock():
                alarm.wait_until(begin_s + offset_s)
            if self._stopped or self._defect:
                return
            self.launched += 1
            if len(self._flying) >= self._plan.load.max_in_flight:
                self._finish(index, self._clock(), None, "dropped", 0, 0)
            else:
                greenlet = gevent.Greenlet(self._ask, index)
                self._flying.add(greenlet)
                greenlet.link(self._flying.discard)
                greenlet.start()

    def stop(self) -> None:
        """Launch no more, and give up what is in flight."""
        self._stopped = True
        gevent.killall(list(self._flying))
        for client in self._clients.values():
            client.close()

    def _ask(self, index: int) -> None:
        url = self._plan.url_of(index)
        request, wanted = self._requests[url, self._plan.operation_of[index]]
        sent_s = self._clock()
        try:
            answer = self._clients[url].fetch(request, wanted, sent_s)
        except Exception as error:
            self._defect = self._defect or error
            raise
        self._finish(index, sent_s, answer.done_s, answer.outcome, answer.status, answer.bytes)

    def _finish(
        self, index: int, sent_s: float, done_s: float | None, outcome: str, status: int, size: int
    ) -> None:
        offset_s = self._plan.offsets_s[index]
        intended_s = self._start_s + offset_s
        sent_s -= self._t0_s
        done_s = None if done_s is None else done_s - self._t0_s
        self.recorded += 1
        self._record(
            {
                "phase": self._plan.phase_at(offset_s),
                "index": self._plan.index_of(index),
                "name": self._plan.operations[self._plan.operation_of[index]].name,
                "intended_s": round(intended_s, 6),
                "sent_s": round(sent_s, 6),
                "done_s": None if done_s is None else round(done_s, 6),
                "latency_ms": None if done_s is None else round((done_s - intended_s) * 1e3, 3),
                "lag_ms": round((sent_s - intended_s) * 1e3, 3),
                "outcome": outcome,
                "status": status,
                "bytes": size,
            }
        )
