"""A run of a service: start it, load it on its connections, check every answer, stop it.

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
from dataclasses import dataclass, replace
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
    """A service's answers. `fault` is "" if every answer was right. Otherwise it is wrong, lost (an
    existing key was not found), refused (by the arbiter: replies differ), error (the service
    reported a failure), closed, or hang."""

    answers: bytes
    fault: str = ""
    phase: str = ""  # of the fault: load or read back


@dataclass(frozen=True)
class RunEnd:
    """The end of a run: exit status, or minus the signal; None if its time was up."""

    status: int | None
    output: bytes
    report: record.FlipReport
    fault: str = ""  # of a service's answers: fault and phase as in Served
    phase: str = ""
    masked: bool = False  # all answers were right because other copies replaced the struck one


class Fault(Exception):
    """A wrong answer, or no answer: `kind` as in Served.fault."""

    def __init__(self, kind: str, answer: bytes = b"") -> None:
        super().__init__(kind)
        self.kind = kind
        self.answer = answer


class Server:
    """A process of the service, and connections to it, or to an arbiter in front of it.

    `path`: its socket; `entry`: the clients' address, if it is not `path`; `beside`: processes that
    serve with it (other copies and the arbiter); `is_apart`: True if these outvoted it or gave it
    up.
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
            self._connections.append(self._open_connection())
            self.ask(len(self._connections) - 1, self._service.end, None)

    def _open_connection(self) -> socket.socket:
        connection = connect_to(self.process, self._entry)
        connection.setblocking(False)
        return connection

    def ask(self, connection: int, request: bytes, expected: bytes | None) -> bytes:
        """Send a batch and return its answer; `expected` None: any answer is right.

        Raises: Fault if the answer differs, or there is none.
        """
        channel = self._connections[connection]
        answer = b""
        try:
            channel.setblocking(True)
            channel.sendall(request)
            channel.setblocking(False)
            while not answer.endswith(self._service.ended):
                answer += self._receive(channel)
                if expected is not None and not expected.startswith(answer):
                    complete = self._complete_answer(channel, answer)
                    raise Fault(self.difference(complete, expected), answer)
        except OSError:
            raise Fault("closed", answer) from None
        return answer

    def _receive(self, connection: socket.socket) -> bytes:
        idle = 0
        while not select.select([connection], [], [], _ROUND_S)[0]:
            idle += not self.is_at_work()
            if idle >= _IDLE_ROUNDS:
                raise Fault("hang")
        chunk = connection.recv(_BUFFER)
        if not chunk:
            raise Fault("closed")
        return chunk

    def _complete_answer(self, connection: socket.socket, answer: bytes) -> bytes:
        """Return a wrong answer with its rest, because its first bytes may not tell its class. A
        flipped length can make it gigabytes long; the first buffer is enough.
        """
        with suppress(Fault, OSError):
            while not answer.endswith(self._service.ended) and len(answer) < _BUFFER:
                if not select.select([connection], [], [], _ROUND_S)[0]:
                    break
                answer += self._receive(connection)
        return answer

    def difference(self, answer: bytes, expected: bytes) -> str:
        """Return the class of a wrong answer: error, lost or wrong."""
        pairs = enumerate(zip(answer, expected, strict=False))
        differing = (at for at, (byte, expected_byte) in pairs if byte != expected_byte)
        first = next(differing, len(expected))
        line = answer[answer.rfind(b"\n", 0, first) + 1 :]
        if line.startswith(_REFUSED):
            return "refused"
        if line.startswith(self._service.errors):
            return "error"
        return "lost" if line.startswith(self._service.absent) else "wrong"

    def is_at_work(self) -> bool:
        """Return True if a thread of it runs, waits for a processor or a disk, or is stopped."""
        return any(_state(task) in _AT_WORK for task in self._threads())

    def _threads(self) -> list[Path]:
        return [task for process in (self.process, *self._beside) for task in _tasks(process.pid)]

    def settle(self) -> None:
        """Wait until its work after an answer is done."""
        while self.process.poll() is None and self.is_at_work():
            time.sleep(_READY_S)

    def cpu_s(self) -> float:
        """CPU time of its threads so far [s]."""
        tasks = self._threads()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def serve(self, expected: bytes | None) -> Served:
        """Send the load once and check the answers; `expected`: those of an undisturbed run."""
        load, ended = self._service.load(), self._service.ended
        parts = expected.split(ended)[:-1] if expected is not None else None
        answers = b""
        batches = (*load.under_load, *load.read_back)
        last = self._service.connections - 1
        for index, batch in enumerate(batches):
            is_load = index < len(load.under_load)
            connection = index % last if is_load and last else last
            if not last:  # its course depends on whether it waits already
                self.settle()
            try:
                answers += self.ask(connection, batch, parts[index] + ended if parts else None)
            except Fault as fault:
                phase = "load" if is_load else "read back"
                return Served(answers + fault.answer, fault.kind, phase)
        return Served(answers)

    def stop(self) -> int | None:
        """Stop it in its usual way. Returns its status; None if it had to be killed; 0 if it lives
        and is a service that is not stopped.
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

    def is_masked(self) -> bool:
        """Return True if it ended, was outvoted or was given up, while the others served."""
        return bool(self._beside) and (self.process.poll() is not None or self._is_apart())

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in (*self._beside, self.process):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def connect_to(process: subprocess.Popen[bytes], path: Address) -> socket.socket:
    """Return a connection to a socket as soon as it can be made. Raises Fault if the process
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
    if not service.is_on_tcp:
        return folder / SOCKET
    return "127.0.0.1", int((folder / _PORT).read_text(encoding="utf-8"))


def _free_port() -> int:
    """Return a port that is not in use. Consecutive calls return different ports, none of them from
    the range of clients' ports.
    """
    for port in islice(_PORTS, len(_BELOW_CLIENTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
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
    """Start the service in `folder`, where its socket will be. Its memory layout never changes."""
    (folder / SOCKET).unlink(missing_ok=True)
    if service.prepare:
        service.prepare(folder)
    port = _free_port() if service.is_on_tcp else 0
    if service.is_on_tcp:
        (folder / _PORT).write_text(str(port), encoding="utf-8")
    clock = {} if service.clock_s is None else {"SPARECRAFT_CLOCK_S": str(service.clock_s)}
    arguments = [argument.format(folder=folder, port=port) for argument in service.arguments]
    return subprocess.Popen(
        ["setarch", "--addr-no-randomize", program, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, **clock, **environment}, cwd=folder,
    )  # fmt: skip


@contextmanager
def serve_alone(
    service: Service, program: Path, folder: Path, environment: dict[str, str]
) -> Iterator[Server]:
    process = start(service, program, folder, environment)
    server = Server(service, process, address_of(service, folder))
    try:
        with report_start_failure(program, process):
            server.connect()
        yield server
    finally:
        server.end()


@contextmanager
def report_start_failure(program: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Turn a Fault at the start into an error. Raises: MeasurementFailed."""
    try:
        yield
    except Fault as fault:
        raise MeasurementFailed(
            str(program), expected="a service that starts and answers",
            got=f"{fault.kind}, status {process.poll()}", hint="Start it by hand.",
        ) from None  # fmt: skip


Serving = Callable[[dict[str, str]], AbstractContextManager[Server]]
"""Starts the service with the given environment variables."""


def run(
    serving: Serving, program: Path, order: record.FlipOrder, folder: Path, expected: bytes | None
) -> RunEnd:
    """Start the service, load it to warm up, start the count of results, load it again, stop it."""
    file = folder / "record"
    order.write(file, counter=True)
    environment = {"SPARECRAFT_FLIPS": str(file), "LD_PRELOAD": str(program.with_name("steady.so"))}
    with record.counter(file) as counter, serving(environment) as server:
        server.serve(expected)
        server.settle()
        counter.begin(order.at)
        served = server.serve(expected)
        server.settle()
        counted = counter.end()
        masked = not served.fault and server.is_masked()
        status = _status_of(server, served)
    report = record.read(file)
    if order.at == record.COUNT:
        report = replace(report, counted=counted)
    return RunEnd(status, served.answers, report, served.fault, served.phase, masked)


def _status_of(server: Server, served: Served) -> int | None:
    if served.fault == "hang":
        return None
    if served.fault == "closed":  # the service ended, or only closed the connection
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
