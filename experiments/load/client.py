"""One request and its reply, with deadlines and an outcome for each case.

`Client` is the contract. `ByteClient` implements it for a protocol with known bytes of a request
and a known end of a reply (`protocols/`), `sessions.py` for a protocol that a library speaks.

Locust's own clients limit each socket operation, so a server that sends one byte a second never
times out. Here a limit is a deadline for the whole: `connect_timeout_s` for the connection,
`response_timeout_s` from the send to the last byte. An incomplete request ends at its deadline: no
request is ever recorded as longer, or as good and late.

Connections are kept and pooled, as browsers, application servers and the arbiter do. One that was
idle for more than IDLE_S, or that the server has closed, is not used again; a request is never sent
twice.

Outcomes:
    ok                  complete in time, and the expected reply
    connection_error    no connection: refused, unreachable
    aborted_connection  no connection within its limit (Fig. 7 of the response-time paper), or it
                        was reset or closed before the answer was complete
    time_out            the answer was not complete within its limit
    bad_status          complete, and reports a failure of the server
    bad_content         complete, but not the expected content; not of the protocol; too large
    unreached           never sent: a step of a session after one that failed

The module is written for the standard sockets, which Locust has made cooperative.
"""

from __future__ import annotations

import select
import socket
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from experiments.load.tls import PlanTls, context_of, handshake_problem

BEGIN_BYTES = 100
Content = bytes
IDLE_S = 2.0  # below the keep-alive limit of any server we drive (Apache: 5 s)
REPLY_BYTES_MAX = 16 * 1024 * 1024
_RECEIVE_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a request, and its time on the clock of the client. `reason` says what a complete
    answer lacked, `begin` has the first bytes of an HTTP answer's content."""

    outcome: str
    status: int
    bytes: int
    done_s: float
    reason: str = ""
    begin: Content = b""


@dataclass(slots=True)
class Reply:
    """A protocol's view of a reply so far: an HTTP status (0: none), the size of the content, and
    the reason why it is not good."""

    outcome: str = "ok"
    reason: str = ""
    status: int = 0
    bytes: int = 0
    begin: Content = b""
    keep: bool = False  # the connection can be used again


class Cut(Exception):
    """The server ended the connection before the answer was complete."""


class Garbled(Exception):
    """The reply is not of the protocol, or too large."""


@dataclass(slots=True)
class _Idle:
    connection: socket.socket
    since_s: float


class Client(ABC):
    """Requests to one address. Many greenlets use it at once."""

    keep_alive = True  # connections are used again

    def __init__(
        self,
        address: tuple[str, int],
        *,
        connect_timeout_s: float,
        response_timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.address = address
        self.connect_timeout_s = connect_timeout_s
        self.response_timeout_s = response_timeout_s
        self.clock = clock

    def request(self, text: str) -> Any:
        """Return the argument of `fetch`, made before the block from an operation's request."""
        return text

    @abstractmethod
    def fetch(self, request: Any, expected: bytes, start_s: float) -> Answer:
        """Send one request, once, and judge the answer, which has to contain `expected`.

        Parameters: start_s, the time on `clock` when the caller began with the request. Returns an
        outcome, at its limit at the latest. An exception is a defect of the client and fails the
        block.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the idle connections."""


class ByteClient(Client):
    """One request's bytes, one reply, over TCP."""

    def __init__(
        self, address: tuple[str, int], *, tls: PlanTls | None = None, **limits: Any
    ) -> None:
        super().__init__(address, **limits)
        self._idle: deque[_Idle] = deque()
        self._tls = None if tls is None else (context_of(tls), tls.name)

    @abstractmethod
    def request(self, text: str) -> bytes:
        """Return the bytes of the request that a plan describes by `text`."""

    @abstractmethod
    def read_reply(self, pieces: Iterator[bytes], expected: bytes, reply: Reply) -> None:
        """Read one reply to its end and judge it; `expected` has to be in its content.

        Raises: Garbled. An exception of `pieces` passes through.
        """

    def fetch(self, request: bytes, expected: bytes, start_s: float) -> Answer:
        """Send a request made by `request`; the caller began with it at `start_s`."""
        connection = self._take_idle()
        if connection is None:
            connect_deadline_s = start_s + self.connect_timeout_s
            try:
                connection = self._connect(connect_deadline_s)
            except TimeoutError:
                return Answer("aborted_connection", 0, 0, connect_deadline_s)
            except OSError as error:
                problem = handshake_problem(error) if isinstance(error, ssl.SSLError) else ""
                return Answer("connection_error", 0, 0, self.clock(), problem)
        deadline_s = self.clock() + self.response_timeout_s
        reply, keep = Reply(), False
        try:
            connection.settimeout(self._remaining_s(deadline_s))
            connection.sendall(request)
            self.read_reply(self._pieces(connection, deadline_s), expected, reply)
            outcome, done_s, keep = reply.outcome, self.clock(), reply.keep and self.keep_alive
        except TimeoutError:
            outcome, done_s = "time_out", deadline_s
        except Garbled:
            outcome, done_s = "bad_content", self.clock()
        except (Cut, OSError):
            outcome, done_s = "aborted_connection", self.clock()
        finally:
            self._release(connection, keep)
        if done_s > deadline_s:
            outcome, done_s = "time_out", deadline_s
        reason = reply.reason if outcome == reply.outcome else ""
        return Answer(outcome, reply.status, reply.bytes, done_s, reason, reply.begin)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().connection.close()

    def _pieces(self, connection: socket.socket, deadline_s: float) -> Iterator[bytes]:
        """Yield the received pieces; an empty one, once, when the server has closed."""
        while True:
            connection.settimeout(self._remaining_s(deadline_s))
            data = connection.recv(_RECEIVE_BYTES)
            yield data
            if not data:
                raise Cut

    def _take_idle(self) -> socket.socket | None:
        """Return the connection used last, if it is still good; older ones than IDLE_S are
        closed.
        """
        now_s = self.clock()
        while self._idle and now_s - self._idle[0].since_s > IDLE_S:
            self._idle.popleft().connection.close()
        while self._idle:
            connection = self._idle.pop().connection
            if _is_silent(connection):
                return connection
            connection.close()
        return None

    def _connect(self, deadline_s: float) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._remaining_s(deadline_s))
            connection.connect(self.address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                context, name = self._tls
                connection.settimeout(self._remaining_s(deadline_s))
                return context.wrap_socket(connection, server_hostname=name)
        except BaseException:
            connection.close()
            raise
        return connection

    def _release(self, connection: socket.socket, keep: bool) -> None:
        if keep:
            self._idle.append(_Idle(connection, self.clock()))
        else:
            connection.close()

    def _remaining_s(self, deadline_s: float) -> float:
        remaining_s = deadline_s - self.clock()
        if remaining_s <= 0:
            raise TimeoutError
        return float(remaining_s)


def _is_silent(connection: socket.socket) -> bool:
    """Return true if the server has neither sent anything nor closed the idle connection."""
    if isinstance(connection, ssl.SSLSocket):
        return not select.select([connection], [], [], 0)[0]
    connection.settimeout(0.0)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
