"""One page view over HTTP/1.1, with limits that hold and an outcome for everything that can happen.

Locust's own clients limit each socket operation, so a server that sends one byte a second never
times out. Here a limit is a deadline for the whole: `connect_timeout_s` for the connection,
`response_timeout_s` from the send to the last byte. What is not complete by its deadline ends at
the deadline: no request is ever recorded as longer, or as good and late.

Connections are kept alive and pooled, as browsers and the arbiter do. One that was idle for more
than IDLE_S, or that the server has closed, is not used again; a request is never sent twice.

Outcomes:
    ok                  200, complete in time, and the page has its title
    connection_error    no connection: refused, unreachable
    aborted_connection  no connection within its limit (Fig. 7 of the response-time paper), or it
                        was reset or closed before the answer was complete
    time_out            the answer was not complete within its limit
    bad_status          complete, not 200
    bad_content         complete, 200, without the title; not HTTP; more than BODY_BYTES_MAX

The module is written for the standard sockets, which Locust has made cooperative.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from geventhttpclient.response import HTTPParseError, HTTPResponse

IDLE_S = 2.0  # below the keep-alive limit of any server we drive (Apache: 5 s)
BODY_BYTES_MAX = 16 * 1024 * 1024
_RECEIVE_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """How a page view ended, and when (on the clock of the client)."""

    outcome: str
    status: int
    bytes: int
    done_s: float


class _Cut(Exception):
    """The server ended the connection before the answer was complete."""


@dataclass(slots=True)
class _Idle:
    connection: socket.socket
    since_s: float


class PageClient:
    """Page views on one address. Many greenlets use it at once."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        connect_timeout_s: float,
        response_timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._address = address
        self._connect_timeout_s = connect_timeout_s
        self._response_timeout_s = response_timeout_s
        self._clock = clock
        self._idle: deque[_Idle] = deque()
        host = address[0] if address[1] == 80 else f"{address[0]}:{address[1]}"
        self._head = f" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sparecraft\r\nAccept: */*\r\n\r\n"

    def request(self, path: str) -> bytes:
        """The bytes of a page view."""
        return f"GET {path}{self._head}".encode()

    def fetch(self, request: bytes, must_contain: bytes, start_s: float) -> Answer:
        """Send a request made by `request`; `start_s` is when the caller began with it."""
        connection = self._reusable()
        if connection is None:
            connect_deadline_s = start_s + self._connect_timeout_s
            try:
                connection = self._connect(connect_deadline_s)
            except TimeoutError:
                return Answer("aborted_connection", 0, 0, connect_deadline_s)
            except OSError:
                return Answer("connection_error", 0, 0, self._clock())
        response = HTTPResponse("GET")
        deadline_s = self._clock() + self._response_timeout_s
        keep = False
        try:
            self._exchange(connection, request, response, deadline_s)
            done_s = self._clock()
            keep = not response.should_close()
            outcome = self._judge(response, must_contain)
        except TimeoutError:
            outcome, done_s = "time_out", deadline_s
        except HTTPParseError:
            outcome, done_s = "bad_content", self._clock()
        except (_Cut, OSError):
            outcome, done_s = "aborted_connection", self._clock()
        finally:
            self._release(connection, keep)
        if done_s > deadline_s:
            outcome, done_s = "time_out", deadline_s
        status = response.get_code() if response.headers_complete else 0
        return Answer(outcome, status, len(response._body_buffer), done_s)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().connection.close()

    def _reusable(self) -> socket.socket | None:
        """The connection used last, if it is still good; older ones than IDLE_S are closed."""
        now_s = self._clock()
        while self._idle and now_s - self._idle[0].since_s > IDLE_S:
            self._idle.popleft().connection.close()
        while self._idle:
            connection = self._idle.pop().connection
            if _is_silent(connection):
                return connection
            connection.close()
        return None

    def _connect(self, deadline_s: float) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._left(deadline_s))
            connection.connect(self._address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            connection.close()
            raise
        return connection

    def _exchange(
        self,
        connection: socket.socket,
        request: bytes,
        response: HTTPResponse,
        deadline_s: float,
    ) -> None:
        connection.settimeout(self._left(deadline_s))
        connection.sendall(request)
        while not (response.message_complete and response.get_code() >= 200):
            connection.settimeout(self._left(deadline_s))
            data = connection.recv(_RECEIVE_BYTES)
            if not data:
                self._end_of_input(response)
                return
            response.feed(data)
            if len(response._body_buffer) > BODY_BYTES_MAX:
                raise HTTPParseError(f"a body of more than {BODY_BYTES_MAX} bytes")

    @staticmethod
    def _end_of_input(response: HTTPResponse) -> None:
        """Only an answer without a length may end with the connection."""
        until_close = "content-length" not in response and "transfer-encoding" not in response
        if not (response.headers_complete and until_close):
            raise _Cut
        response.feed(b"")

    def _judge(self, response: HTTPResponse, must_contain: bytes) -> str:
        if response.get_code() != 200:
            return "bad_status"
        if must_contain not in response._body_buffer:
            return "bad_content"
        return "ok"

    def _release(self, connection: socket.socket, keep: bool) -> None:
        if keep:
            self._idle.append(_Idle(connection, self._clock()))
        else:
            connection.close()

    def _left(self, deadline_s: float) -> float:
        left_s = deadline_s - self._clock()
        if left_s <= 0:
            raise TimeoutError
        return float(left_s)


def _is_silent(connection: socket.socket) -> bool:
    """An idle connection has nothing to read but its end."""
    connection.settimeout(0.0)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
