"""A run of a service: started, loaded on its connections, every answer checked, stopped.

A run has limits of CPU time and of waits in which the service neither works nor waits for a
processor, so a slow or stopped host causes no hang.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from core.errors import MeasurementFailed
from experiments.kinds.bitflips import record
from experiments.kinds.bitflips.services import Service

_ROUND_S = 0.1  # a wait for an answer
_IDLE_ROUNDS = 30  # after which a service that does nothing hangs
_START_S = 300.0
_READY_S = 0.002  # between two attempts to connect
_BUFFER = 1 << 16
_BELOW_CLIENTS = range(20_000, 32_000)  # clients' ports begin at 32,768 (ip(7), Linux)
_PORTS = cycle(random.sample(_BELOW_CLIENTS, len(_BELOW_CLIENTS)))  # shared by all workers
SOCKET = "socket"  # of a service, in its folder
_PORT = "port"  # a file there, of one that listens on TCP
Address = Path | tuple[str, int]
_REFUSED = b"SERVER_ERROR arbiter: the replicas' replies differ"  # agents/arbiter/src/kv/mod.rs
_AT_WORK = "RDTtX"  # states of a thread that is not merely asleep: proc(5)


@dataclass(frozen=True)
class Served:
    """A service's answers: `fault` is "" where every answer was right, else wrong, lost (a key
    that is there was not found), refused (the arbiter: replies differ), error (it said it failed),
    closed, or hang."""

    answers: bytes
    fault: str
    phase: str  # load or read back, where the fault was
    counted: int  # results under load


@dataclass(frozen=True)
class Ended:
    """A run that is over: exit status, minus the signal, or None where it hung."""

    status: int | None
    served: Served
    masked: bool  # every answer was right because others made up for the one that was struck


class Fault(Exception):
    """An answer that is not right, or none: `what` as in Served.fault."""

    def __init__(self, what: str, answer: bytes = b"") -> None:
        super().__init__(what)
        self.what = what
        self.answer = answer


class Server:
    """A process of the service, and connections to it, or to an arbiter in front of it.

    `path`: its socket; `entry`: where clients come in, if not there; `beside`: processes that serve
    with it, other copies and the arbiter; `is_apart`: whether it was outvoted or given up by them.
    """

    def __init__(
        self, service: Service, process: subprocess.Popen[bytes], path: Address, *,
        entry: Address | None = None, beside: Sequence[subprocess.Popen[bytes]] = (),
        is_apart: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._service = service
        self.process = process
        self.path = path
        self._entry = entry or path
        self._beside = beside
        self._is_apart = is_apart
        self._connections: list[socket.socket] = []

    def connect(self) -> None:
        """Open all connections, and use each once."""
        for _ in range(self._service.connections):
            self._connections.append(self._connected())
            self.ask(len(self._connections) - 1, self._service.end, None)

    def _connected(self) -> socket.socket:
        connection = connected(self.process, self._entry)
        connection.setblocking(False)
        return connection

    def ask(self, connection: int, request: bytes, expected: bytes | None) -> bytes:
        """Send a batch and take its answer; `expected` None: whatever it is.

        Raises: Fault if it is another, or none.
        """
        at = self._connections[connection]
        answer = b""
        try:
            at.setblocking(True)
            at.sendall(request)
            at.setblocking(False)
            while not answer.endswith(self._service.ended):
                answer += self._more(at)
                if expected is not None and not expected.startswith(answer):
                    raise Fault(self.difference(self._whole(at, answer), expected), answer)
        except OSError:
            raise Fault("closed", answer) from None
        return answer

    def _more(self, connection: socket.socket) -> bytes:
        idle = 0
        while not select.select([connection], [], [], _ROUND_S)[0]:
            idle += not self.is_at_work()
            if idle >= _IDLE_ROUNDS:
                raise Fault("hang")
        more = connection.recv(_BUFFER)
        if not more:
            raise Fault("closed")
        return more

    def _whole(self, connection: socket.socket, answer: bytes) -> bytes:
        """Return a wrong answer as far as it goes, as its first bytes may not tell what it is; a
        flipped length makes it gigabytes, of which the first buffer is enough.
        """
        with suppress(Fault, OSError):
            while not answer.endswith(self._service.ended) and len(answer) < _BUFFER:
                if not select.select([connection], [], [], _ROUND_S)[0]:
                    break
                answer += self._more(connection)
        return answer

    def difference(self, answer: bytes, expected: bytes) -> str:
        """Return the class of a wrong answer: error, lost or wrong."""
        same = next((at for at, (one, other) in enumerate(zip(answer, expected, strict=False))
                     if one != other), len(expected))  # fmt: skip
        line = answer[answer.rfind(b"\n", 0, same) + 1 :]
        if line.startswith(_REFUSED):
            return "refused"
        if line.startswith(self._service.errors):
            return "error"
        return "lost" if line.startswith(self._service.absent) else "wrong"

    def is_at_work(self) -> bool:
        """Tell whether a thread of it runs, waits for a processor or a disk, or is stopped."""
        return any(_state(task) in _AT_WORK for task in self._threads())

    def _threads(self) -> list[Path]:
        return [task for process in (self.process, *self._beside) for task in _tasks(process.pid)]

    def settle(self) -> None:
        """Wait until it has done what follows an answer."""
        while self.process.poll() is None and self.is_at_work():
            time.sleep(_READY_S)

    def cpu_s(self) -> float:
        """CPU time of its threads so far [s]."""
        tasks = self._threads()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def serve(self, expected: bytes | None) -> Served:
        """Return the load, once; `expected`: all answers of an undisturbed run."""
        load, ended = self._service.load(), self._service.ended
        right = expected.split(ended)[:-1] if expected is not None else None
        answers = b""
        batches = (*load.under_load, *load.read_back)
        last = self._service.connections - 1
        for index, batch in enumerate(batches):
            is_load = index < len(load.under_load)
            connection = index % last if is_load and last else last
            if not last:  # what it does depends on whether it waits already
                self.settle()
            try:
                answers += self.ask(connection, batch, right[index] + ended if right else None)
            except Fault as fault:
                phase = "load" if is_load else "read back"
                return Served(answers + fault.answer, fault.what, phase, 0)
        return Served(answers, "", "", 0)

    def stop(self) -> int | None:
        """Stop it as one does. Returns its status, None if it had to be killed; 0 if it lives
        and is one that is not stopped.
        """
        if self.process.poll() is None and not self._service.ends:
            return 0
        with suppress(OSError):
            if self.process.poll() is None and self._service.stop is None:
                self.process.send_signal(signal.SIGTERM)
                _connect(self.path).close()  # else it waits for its next timer
            elif self.process.poll() is None and self._service.stop is not None:
                self._connections[0].sendall(self._service.stop)
        return self.wait()

    def wait(self) -> int | None:
        """Return the exit status; None if the process does not end."""
        idle = 0
        while idle < _IDLE_ROUNDS:
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(_ROUND_S)
            idle += not self.is_at_work()
        return None

    def made_up_for(self) -> bool:
        """Tell whether it ended, was outvoted or given up, while the others served."""
        return bool(self._beside) and (self.process.poll() is not None or self._is_apart())

    def end(self) -> None:
        """Close what is open, and leave no process."""
        for connection in self._connections:
            connection.close()
        for process in (*self._beside, self.process):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it if it lives."""
    if process.poll() is None:
        process.kill()
    process.wait()


def connected(process: subprocess.Popen[bytes], path: Address) -> socket.socket:
    """Return a connection to a socket, as soon as there is one. Raises Fault if the process
    ends.
    """
    end_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < end_s:
        try:
            return _connect(path)
        except OSError:
            time.sleep(_READY_S)
    raise Fault("closed")


def _connect(path: Address) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX if isinstance(path, Path) else socket.AF_INET)
    try:
        connection.connect(str(path) if isinstance(path, Path) else path)
    except OSError:
        connection.close()
        raise
    return connection


def address_of(service: Service, folder: Path) -> Address:
    """Return the socket of the service that was started in `folder`."""
    if not service.is_on_tcp:
        return folder / SOCKET
    return "127.0.0.1", int((folder / _PORT).read_text(encoding="utf-8"))


def _free_port() -> int:
    """One that nobody has: no two calls get the same in a row, and no client's is among them."""
    for port in islice(_PORTS, len(_BELOW_CLIENTS)):
        with socket.socket() as found, suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(("127.0.0.1", port))
            return port
    raise MeasurementFailed(
        "the ports of 127.0.0.1", expected=f"a free one from {_BELOW_CLIENTS}", got="none",
        hint="End the program that listens there.",
    )  # fmt: skip


def _tasks(pid: int) -> list[Path]:
    with suppress(FileNotFoundError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _state(task: Path) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def start(
    service: Service, program: Path, folder: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Return a process of the service in `folder`, where its socket will be, always mapped
    alike.
    """
    (folder / SOCKET).unlink(missing_ok=True)
    if service.prepare:
        service.prepare(folder)
    port = _free_port() if service.is_on_tcp else 0
    if service.is_on_tcp:
        (folder / _PORT).write_text(str(port), encoding="utf-8")
    clock = {} if service.clock_s is None else {"SPARECRAFT_CLOCK_S": str(service.clock_s)}
    arguments = [word.format(folder=folder, port=port) for word in service.arguments]
    return subprocess.Popen(
        ["setarch", "--addr-no-randomize", program, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, **clock, **environment}, cwd=folder,
    )  # fmt: skip


@contextmanager
def running(
    service: Service, program: Path, folder: Path, environment: dict[str, str]
) -> Iterator[Server]:
    """The service in `folder`, with all connections."""
    process = start(service, program, folder, environment)
    server = Server(service, process, address_of(service, folder))
    try:
        with told_where_it_does_not_start(program, process):
            server.connect()
        yield server
    finally:
        server.end()


@contextmanager
def told_where_it_does_not_start(program: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Raises: MeasurementFailed for a Fault."""
    try:
        yield
    except Fault as fault:
        raise MeasurementFailed(
            str(program), expected="a service that starts and answers",
            got=f"{fault.what}, status {process.poll()}", hint="Start it by hand.",
        ) from None  # fmt: skip


Serving = Callable[[dict[str, str]], AbstractContextManager[Server]]
"""Starts the service with these variables in its environment."""


def run(
    serving: Serving, program: Path, asked: record.FlipOrder, folder: Path, expected: bytes | None
) -> Ended:
    """Start it, load it once to warm up, set the count of results, load it again, and stop it."""
    told = folder / "record"
    asked.write(told, counter=True)
    environment = {"SPARECRAFT_FLIPS": str(told), "LD_PRELOAD": str(program.with_name("steady.so"))}
    with record.counter(told) as counter, serving(environment) as server:
        server.serve(expected)
        server.settle()
        counter.begin(asked.at)
        served = server.serve(expected)
        server.settle()
        counted = counter.end()
        masked = not served.fault and server.made_up_for()
        status = _status_of(server, served)
    return Ended(status, Served(served.answers, served.fault, served.phase, counted), masked)


def _status_of(server: Server, served: Served) -> int | None:
    if served.fault == "hang":
        return None
    if served.fault == "closed":  # it has ended, or has only closed the connection
        return server.wait() if not server.is_at_work() and server.process.poll() else server.stop()
    return server.stop()


def cpu_time(
    service: Service, serving: Serving, rounds: int, environment: dict[str, str]
) -> tuple[float, float, int]:
    """Return CPU time [s] and time [s] of `rounds` loads without flips, and their requests."""
    with serving(environment) as server:
        expected = server.serve(None).answers
        cpu_s, begin_s = server.cpu_s(), time.monotonic()
        for _ in range(rounds):
            served = server.serve(expected)
            if served.fault:
                raise MeasurementFailed(
                    "the price", expected="the same answers in each round", got=served.fault,
                    hint="Run it by hand.",
                )  # fmt: skip
        return server.cpu_s() - cpu_s, time.monotonic() - begin_s, rounds * service.load().requests
