"""The open loop: every request is sent at its own time, independent of earlier answers.

Locust users wait for an answer before they continue, so a stalled server also stalls the arrivals,
and the worst requests are never sent (coordinated omission). Here one Locust user runs the drawn
schedule and starts a greenlet for each arrival; latency counts from the intended start. One
greenlet sends all steps of a session: its begin is drawn, and each later step is intended for the
end of the previous one plus the wait between them.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from gevent import monkey

from core.statistics.percentiles import OK
from experiments.design.http_request import HttpRequest
from experiments.design.workloads import Operation
from experiments.load.client import Answer
from experiments.load.clients import clients_of, host_header
from experiments.load.http_operation import Expected, VirtualUser, bytes_of
from experiments.load.plan import LoadPlan
from experiments.load.workers.locust.timer import Alarm
from experiments.record.records import RequestRecord

FLUSH_S = 0.25
_ALARM_S = 0.003  # of a wait, by the exact timer


class Records(ABC):
    """Records as lines of JSON, passed on by a greenlet that never holds up a request."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def append(self, record: RequestRecord) -> None:
        self._lines.append(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    @abstractmethod
    def flush(self) -> None:
        """Pass on the queued records."""

    def flush_forever(self) -> None:
        """Run as a greenlet: pass on the queue, again and again."""
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
        """Queue a record that another process has already written as a line."""
        self._lines.append(line)

    @property
    def waiting(self) -> int:
        """Records that are not in the file yet."""
        return len(self._lines) + self._rest.count(b"\n")

    def flush_forever(self) -> None:
        """Run as a greenlet: write the queue in a thread, not in the event loop."""
        pool = gevent.get_hub().threadpool
        while True:
            gevent.sleep(FLUSH_S)
            if self._lines or self._rest:
                pool.apply(self.flush)

    def flush(self) -> None:
        """Write the queued records; keep a failure in `error`, and drop nothing."""
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


class Arrivals(ABC):
    """The open loop of one plan: it starts each arrival at its time. Times are seconds since the
    run's t0, unless they are named as the clock's."""

    def __init__(
        self,
        plan: LoadPlan,
        *,
        clock: Callable[[], float],  # time.monotonic, which the waits go by
        record: Callable[[RequestRecord], None],
    ) -> None:
        assert monkey.is_module_patched("socket"), "run under Locust, which patches sockets"
        self._plan = plan
        self._t0_s = self._start_s = 0.0
        self._clock = clock
        self._record = record
        self._stopped = False
        self._defect: Exception | None = None  # ends it early
        self.launched = 0
        self.recorded = 0

    @abstractmethod
    def launch(self, index: int, intended_s: float) -> None:
        """Begin the arrival of this index in the plan; return at once."""

    @abstractmethod
    def drain(self) -> None:
        """Wait for the requests in flight; their time-outs end the wait."""

    def stop(self) -> None:
        """Launch no more, and give up the requests in flight."""
        self._stopped = True

    def run(self, t0_s: float, start_s: float) -> None:
        """Launch every arrival at its time, then wait for those in flight.

        Raises: the defect of a client or of a Locust file, which ends it early.
        """
        self._t0_s, self._start_s = t0_s, start_s
        alarm = Alarm()
        try:
            self._launch_all(alarm)
        finally:
            alarm.close()
        self.drain()
        if self._defect:
            raise self._defect
        rest_s = self._t0_s + self._start_s + self._plan.length_s - self._clock()
        if rest_s > 0 and not self._stopped:
            gevent.sleep(rest_s)

    def _launch_all(self, alarm: Alarm) -> None:
        begin_s = self._t0_s + self._start_s
        after = self._plan.after
        for index, offset_s in enumerate(self._plan.offsets_s):
            if after and after[index] >= 0:
                continue
            if begin_s + offset_s > self._clock():
                alarm.wait_until(begin_s + offset_s)
            if self._stopped or self._defect:
                return
            self.launch(index, self._start_s + offset_s)

    def finish(
        self, index: int, name: str, intended_s: float, sent_s: float, answer: Answer
    ) -> None:
        """Record a request. A time that it does not have is NaN.

        Parameters: index in the plan; intended_s since the run's t0 [s]; sent_s on the clock [s],
        as is `done_s` of the answer.
        """
        plan = self._plan
        sent_s -= self._t0_s
        done_s = answer.done_s - self._t0_s
        self.recorded += 1
        record: RequestRecord = {
            "phase": plan.phase_at(plan.offsets_s[index]),
            "index": plan.index_of(index),
            "name": name,
            "intended_s": round(intended_s, 6),
            "sent_s": _round(sent_s, 6),
            "done_s": _round(done_s, 6),
            "latency_ms": _round((done_s - intended_s) * 1e3, 3),
            "lag_ms": _round((sent_s - intended_s) * 1e3, 3),
            "outcome": answer.outcome,
            "status": answer.status,
            "bytes": answer.bytes,
        }
        self._record({**record, "reason": answer.reason} if answer.reason else record)


class OpenLoop(Arrivals):
    """Asks the operation of each arrival by the clients of the plan."""

    def __init__(
        self, plan: LoadPlan, *, clock: Callable[[], float], record: Callable[[RequestRecord], None]
    ) -> None:
        super().__init__(plan, clock=clock, record=record)
        self._clients = clients_of(plan, clock)
        self._requests = {
            (url, index): self._request(url, operation)
            for index, operation in enumerate(plan.operations)
            for url in plan.entries[operation.entry]
        }
        # The step that follows each step of a session.
        self._next = {before: index for index, before in enumerate(plan.after) if before >= 0}
        self._flying: set[gevent.Greenlet] = set()
        self._in_flight = 0
        self._alarms: list[Alarm] = []  # that no session uses now

    def launch(self, index: int, intended_s: float) -> None:
        """Send in a new greenlet, or drop the arrival if too many requests are in flight."""
        if self._is_full() and index not in self._next:
            self._drop(index, intended_s)
            return
        greenlet = gevent.Greenlet(self._run_arrival, index)
        self._flying.add(greenlet)
        greenlet.link(self._flying.discard)
        greenlet.start()

    def drain(self) -> None:
        """Wait for the end of each request."""
        gevent.joinall(list(self._flying))

    def stop(self) -> None:
        """Launch no more, and give up the requests in flight."""
        super().stop()
        gevent.killall(list(self._flying))
        for client in self._clients.values():
            client.close()
        for alarm in self._alarms:
            alarm.close()

    def _run_arrival(self, index: int) -> None:
        """Send one request, or all steps of a session."""
        try:
            intended_s = self._start_s + self._plan.offsets_s[index]
            user = self._user(index)
            while (done_s := self._ask(index, intended_s, user)) is not None:
                following = self._next.get(index)
                if following is None:
                    return
                index = following
                intended_s = done_s - self._t0_s + self._plan.think_s[index]
                self._wait_until(self._t0_s + intended_s)
            while (following := self._next.get(index)) is not None:
                index = following
                self._record_unreached(index)
        except Exception as error:
            self._defect = self._defect or error
            raise

    def _ask(self, index: int, intended_s: float, user: VirtualUser | None) -> float | None:
        """Send one request. Returns the time of a good answer on the clock, else None."""
        if self._is_full():
            self._drop(index, intended_s)
            return None
        self.launched += 1
        url = self._plan.url_of(index)
        request, expected = self._requests[url, self._plan.operation_of[index]]
        sent_s = self._clock()
        if isinstance(request, HttpRequest):
            assert user is not None  # each arrival of a plan with such operations has one
            expected = Expected(request, user)
            request = bytes_of(request, host_header(self._plan, self._clients[url]), user)
        self._in_flight += 1
        try:
            answer = self._clients[url].fetch(request, expected, sent_s)
        finally:
            self._in_flight -= 1
        self._finish(index, intended_s, sent_s, answer)
        return answer.done_s if answer.outcome == OK else None

    def _request(self, url: str, operation: Operation) -> tuple[Any, Any]:
        """Return the request of an operation, and the text that its answer must contain."""
        if operation.http is not None:
            return operation.http, b""
        return self._clients[url].request(operation.request), operation.check.encode()

    def _user(self, index: int) -> VirtualUser | None:
        plan = self._plan
        if plan.schema == 1:
            return None
        row = plan.rows[plan.row_of[index]] if plan.row_of else ()
        return VirtualUser(dict(zip(plan.columns, row, strict=True)))

    def _wait_until(self, monotonic_s: float) -> None:
        """Wait until this time, the last milliseconds by a precise timer, because gevent's sleep is
        not exact.
        """
        rest_s = monotonic_s - self._clock() - _ALARM_S
        if rest_s > 0:
            gevent.sleep(rest_s)
        if monotonic_s <= self._clock():
            return
        alarm = self._alarms.pop() if self._alarms else Alarm()
        try:
            alarm.wait_until(monotonic_s)
        finally:
            self._alarms.append(alarm)

    def _is_full(self) -> bool:
        return self._in_flight >= self._plan.load.max_in_flight

    def _drop(self, index: int, intended_s: float) -> None:
        self.launched += 1
        self._finish(index, intended_s, self._clock(), Answer("dropped", 0, 0, math.nan))

    def _record_unreached(self, index: int) -> None:
        """Record a step that follows a failed one: it has only its planned time."""
        self.launched += 1
        intended_s = self._start_s + self._plan.offsets_s[index]
        self._finish(index, intended_s, math.nan, Answer("unreached", 0, 0, math.nan))

    def _finish(self, index: int, intended_s: float, sent_s: float, answer: Answer) -> None:
        name = self._plan.operations[self._plan.operation_of[index]].name
        self.finish(index, name, intended_s, sent_s, answer)


def _round(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)
