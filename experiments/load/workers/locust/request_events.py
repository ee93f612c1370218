"""Locust's request event as a record of the block: arrival, lateness, outcome.

A request is due with its arrival, or later by the task's work before it. So its intended time is
the time of its send minus the lateness of its arrival, and its latency is Locust's plus that
lateness.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import gevent
import requests
import urllib3
from geventhttpclient.response import HTTPConnectionClosed
from geventhttpclient.useragent import EmptyResponse, RetriesExceeded
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession, FastHttpUser
from locust.env import Environment

from experiments.load.client import Answer
from experiments.load.workers.locust.user_pool import Seat, TaskRun, current_seat

NAME_MAX = 200
REASON_MAX = 200
NAMES_MAX = 1000
OTHER_NAMES = "(other names)"

_NO_CONNECTION_IN_TIME = (requests.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError)
_TIME_OUTS = (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError, gevent.Timeout)
_CUT = (
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.ProtocolError,
    HTTPConnectionClosed,
    EmptyResponse,
)


Record = Callable[[TaskRun, str, float, Answer], None]
"""Takes a request of a task: its name, the time of its send on the clock, its answer."""


def outcome_of(error: Any, status: int) -> str:
    """Return our outcome of a request, from Locust's error (None: good) and the status."""
    if error is None:
        return "ok"
    if isinstance(error, RetriesExceeded):  # of a FastHttpUser, around the error of the last try
        error = error.__dict__.get("original") or error
    if isinstance(error, _NO_CONNECTION_IN_TIME):
        return "aborted_connection"
    if isinstance(error, _TIME_OUTS):
        return "time_out"
    if isinstance(error, _CUT) or type(error).__name__ in ("RemoteDisconnected", "IncompleteRead"):
        return "aborted_connection"
    if status >= 400:
        return "bad_status"
    if isinstance(error, OSError | urllib3.exceptions.HTTPError) and status == 0:
        return "connection_error"
    return "bad_content"


def reason_of(error: Any) -> str:
    """Locust's words for a failure, in a line."""
    return " ".join(str(error).split())[:REASON_MAX]


class RequestEvents:
    """Records the requests of tasks, and counts those outside a task (on_start, on_stop, a greenlet
    of the file's).

    limit_s: of a whole request, as for any load; a longer request has timed out.
    """

    def __init__(self, record: Record, clock: Callable[[], float], limit_s: float) -> None:
        self.outside = 0
        self._record = record
        self.clock = clock
        self._limit_s = limit_s
        self._names: set[str] = set()

    def listen(self, environment: Environment) -> None:
        environment.events.request.add_listener(self._on_request)

    def end_task(self, run: TaskRun, seat: Seat) -> None:
        """Record a task's time-out as a failure if none of its requests was under way."""
        if run.timed_out and run.open_requests == 0:
            self._time_out(run, seat.name, run.started_s)

    def record_cut(self, run: TaskRun, name: str, sent_s: float) -> None:
        """Record a request that was cut when its task was ended at the time-out."""
        self._time_out(run, self._bounded_name(name), sent_s)

    def _time_out(self, run: TaskRun, name: str, sent_s: float) -> None:
        answer = Answer("time_out", 0, 0, self.clock(), "task_timeout_s")
        self._record(run, name, sent_s, answer)

    def _on_request(
        self,
        request_type: str,
        name: str,
        response_time: float,
        response_length: int = 0,
        exception: Any = None,
        response: Any = None,
        start_time: float | None = None,
        **_: Any,
    ) -> None:
        seat = current_seat()
        run = seat.run if seat is not None else None
        if run is None:
            self.outside += 1
            return
        now_s, duration_s = self.clock(), max(0.0, float(response_time or 0.0) / 1e3)
        ago_s = duration_s if start_time is None else max(duration_s, time.time() - start_time)
        sent_s = max(run.started_s, now_s - ago_s)
        status = _number(getattr(response, "status_code", 0))
        outcome = outcome_of(exception, status)
        if duration_s > self._limit_s:
            outcome, duration_s = "time_out", self._limit_s
        run.requests += 1
        size = _number(response_length)
        reason = "" if outcome == "ok" else reason_of(exception)
        answer = Answer(outcome, status, size, sent_s + duration_s, reason)
        self._record(run, self._bounded_name(f"{request_type} {name}"), sent_s, answer)

    def _bounded_name(self, name: str) -> str:
        """Return the name, or `OTHER_NAMES` if there are too many names."""
        name = name[:NAME_MAX]
        if name not in self._names:
            if len(self._names) >= NAMES_MAX:
                return OTHER_NAMES
            self._names.add(name)
        return name


def limit_requests(events: RequestEvents, connect_s: float, response_s: float) -> None:
    """Give requests of Locust's two clients the load's limits; shorter ones of the file hold too.

    Call it before the file is imported, because its classes inherit the limits.
    """
    FastHttpUser.connection_timeout = connect_s
    FastHttpUser.network_timeout = response_s
    HttpSession.request = _watch(events, HttpSession.request)  # type: ignore[method-assign]
    watched_request = _watch(events, FastHttpSession.request)
    FastHttpSession.request = _limit(watched_request, connect_s + response_s, TimeoutError)  # type: ignore[method-assign]
    send = HttpSession._send_request_safe_mode

    def send_with_limits(session: HttpSession, method: Any, url: Any, **options: Any) -> Any:
        if options.get("timeout") is None:
            options["timeout"] = (connect_s, response_s)
        return send(session, method, url, **options)

    limited_send = _limit(send_with_limits, connect_s + response_s, requests.ReadTimeout)
    HttpSession._send_request_safe_mode = limited_send  # type: ignore[method-assign]


def _limit(call: Callable[..., Any], limit_s: float, error: type[Exception]) -> Any:
    """Return the call with a time limit. A request that is incomplete then fails with `error`,
    which Locust's clients know.
    """

    @functools.wraps(call)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        with gevent.Timeout(limit_s, error(f"no whole answer within {limit_s:g} s")):
            return call(*arguments, **options)

    return wrapper


def _watch(events: RequestEvents, call: Callable[..., Any]) -> Any:
    """Return the call such that a request under way is recorded when its task is ended."""

    @functools.wraps(call)
    def wrapper(session: Any, method: Any, url: Any, *arguments: Any, **options: Any) -> Any:
        seat = current_seat()
        run = seat.run if seat is not None else None
        sent_s = events.clock()
        try:
            return call(session, method, url, *arguments, **options)
        except gevent.GreenletExit:
            if run is not None and run.timed_out:
                name = options.get("name") or session.request_name or url
                run.open_requests += 1
                events.record_cut(run, f"{method} {name}", sent_s)
            raise

    return wrapper


def _number(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0
