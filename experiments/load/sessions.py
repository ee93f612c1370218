"""A client for a library with a log-in or a state, such as a database's.

The library must be written in Python, so that Locust makes its sockets cooperative. Its own limits
are not needed: a wait ends at the deadline, and the session is given up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import gevent

from experiments.load.client import IDLE_S, Answer, Client, Garbled

_CLOSE_S = 1.0


class SessionClient(Client):
    """Sessions that are opened when needed, used by one request at a time, and kept."""

    refusals: ClassVar[tuple[type[Exception], ...]] = ()  # of the library: the server says no
    losses: ClassVar[tuple[type[Exception], ...]] = ()  # of the library: the connection failed
    idle_s: ClassVar[float] = IDLE_S  # an idle session is kept so long; 0: for one request

    def __init__(self, address: tuple[str, int], **limits: Any) -> None:
        super().__init__(address, **limits)
        self._idle: deque[tuple[float, Any]] = deque()
        self._loss_types: tuple[type[Exception], ...] = (OSError, *self.losses)
        self._end_types: tuple[type[Exception], ...] = (*self._loss_types, *self.refusals)

    @abstractmethod
    def open(self) -> Any:
        """Connect to `address` and log in."""

    @abstractmethod
    def ask(self, session: Any, request: Any) -> bytes:
        """Send one request and return the whole content of its answer.

        Raises: Garbled for an answer that is not of the protocol.
        """

    @abstractmethod
    def shut(self, session: Any) -> None:
        """End a session."""

    def fetch(self, request: Any, expected: bytes, start_s: float) -> Answer:
        """Send one request, as in `Client`; a refusal of the server is `bad_status`."""
        session = self._take_idle()
        if session is None:
            deadline_s = start_s + self.connect_timeout_s
            try:
                with self._until(deadline_s):
                    session = self.open()
            except TimeoutError:
                return Answer("aborted_connection", 0, 0, deadline_s)
            except self.refusals:
                return Answer("bad_status", 0, 0, self.clock())
            except self._loss_types:
                return Answer("connection_error", 0, 0, self.clock())
        deadline_s = self.clock() + self.response_timeout_s
        outcome, size = "ok", 0
        try:
            with self._until(deadline_s):
                content = self.ask(session, request)
            size = len(content)
            outcome = "ok" if expected in content else "bad_content"
            if self.idle_s > 0 and self.keep_alive:
                self._idle.append((self.clock(), session))
                session = None
        except TimeoutError:
            outcome = "time_out"
        except Garbled:
            outcome = "bad_content"
        except self.refusals:
            outcome = "bad_status"
        except self._loss_types:
            outcome = "aborted_connection"
        finally:
            if session is not None:
                gevent.spawn(self._end, session)
        done_s = self.clock()
        if outcome == "time_out" or done_s > deadline_s:
            return Answer("time_out", 0, size, deadline_s)
        return Answer(outcome, 0, size, done_s)

    def close(self) -> None:
        while self._idle:
            gevent.spawn(self._end, self._idle.pop()[1])

    def _take_idle(self) -> Any:
        """Return the session used last; older ones than `idle_s` are ended."""
        now_s = self.clock()
        while self._idle and now_s - self._idle[0][0] > self.idle_s:
            gevent.spawn(self._end, self._idle.popleft()[1])
        return self._idle.pop()[1] if self._idle else None

    def _end(self, session: Any) -> None:
        with gevent.Timeout(_CLOSE_S, False):
            try:
                self.shut(session)
            except self._end_types:
                return  # it was gone already

    @contextmanager
    def _until(self, deadline_s: float) -> Iterator[None]:
        """Raise TimeoutError at the deadline, in any wait."""
        remaining_s = deadline_s - self.clock()
        if remaining_s <= 0:
            raise TimeoutError
        limit = gevent.Timeout(remaining_s)
        try:
            with limit:
                yield
        except gevent.Timeout as timeout:
            if timeout is not limit:
                raise
            raise TimeoutError from timeout
