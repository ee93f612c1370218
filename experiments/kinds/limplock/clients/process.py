"""The stores' official clients: one Java process for each arm, which asks in lanes until stopped.

`infra/roles/java/Lanes.java` defines the messages on its pipes. Its clock is this host's monotonic
clock, as Python's, so its times and the runner's can be compared.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import EnvironmentMissing, MeasurementFailed, SparecraftError
from experiments.design.roles import Role
from experiments.paths import ROOT
from experiments.record.records import space_for, write_bytes

_BUILD = ROOT / "build"
_JAVA = ROOT / "infra" / "roles" / "java"
_MAIN = "Lanes"
_HEAP_MB = 160
_START_S = 120.0
_OPEN_S = 30.0
_END_S = 5.0
_NEVER_S = 3600.0
_TAIL_BYTES = 2000
_GONE = "it has ended"
Work = Callable[[threading.Event], None]


class ClientEnded(MeasurementFailed):
    """The process has ended, so nothing can be asked of it any more."""


@dataclass(frozen=True)
class Task:
    """A lane's task: an operation of one machine, `count` times (0: until it is stopped), one
    after another, each with `size` bytes, over `keys` names."""

    node: str
    operation: str
    target: str
    count: int
    size: int
    keys: int
    gap_s: float = 0.0
    timeout_s: float = _NEVER_S


@dataclass(frozen=True)
class OperationTime:
    """One operation of a lane; monotonic times [s]."""

    start: float
    end: float
    outcome: str


@dataclass
class Lane:
    """A task on its way: when it `started`; when it `ended`, and the `reason` [monotonic s]."""

    task: Task
    number: int
    started: float = 0.0
    did: list[OperationTime] = field(default_factory=list)
    ended: float | None = None
    reason: str = ""
    work: Work | None = None  # in place of a client's operation
    halt: threading.Event = field(default_factory=threading.Event)  # the work is to end
    is_open: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_done(self) -> bool:
        return self.reason == "done"

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is over; return False if that takes longer."""
        return self._over.wait(max(0.0, timeout_s))

    def end(self, now: float, reason: str) -> None:
        if self.ended is None:
            self.ended, self.reason = now, reason
            self.is_open.set()  # nobody has to wait for it
            self._over.set()


class Clients:
    """The process; always `close` it. Lanes that are over stay in `lanes`."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Starts `command`, whose errors go to `log`. Raises EnvironmentMissing, DiskFull."""
        self.lanes: list[Lane] = []
        self._log = log
        with space_for(log), log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, start_new_session=True,
            )  # fmt: skip
        self._up = False
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, name="clients", daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_S) or not self._up:
            self.close()
            raise EnvironmentMissing(
                f"the client {command[-1]}",
                expected=f"to start within {_START_S:g} s",
                got=self._tail(),
                hint="Call `ci/setup`; the client needs a JDK and the role's jars.",
            )

    def open(self, task: Task) -> Lane:
        """Return a new lane with its client connected; `go` lets it begin. Raises
        MeasurementFailed if it cannot be connected, or the process has ended.
        """
        lane = self._open(task)
        if not lane.is_open.wait(_OPEN_S) or lane.ended is not None:
            raise self._failure(f"no connection to {task.target} within {_OPEN_S:g} s")
        return lane

    def call(self, task: Task, work: Work) -> Lane:
        """Return a lane whose only operation is `work`, which ends soon after its event is set. The
        operation failed if `work` raises a SparecraftError.
        """
        lane = Lane(task, len(self.lanes), work=work)
        self.lanes.append(lane)
        return lane

    def go(self, lane: Lane) -> None:
        lane.started = time.monotonic()
        if lane.work is None:
            self._send("go", lane.number)
        else:
            threading.Thread(
                target=_run_work, args=(lane, lane.work), name="work", daemon=True
            ).start()

    def start(self, task: Task) -> Lane:
        """Return a lane that begins as soon as it is connected, whenever that is."""
        lane = self._open(task)
        self.go(lane)
        return lane

    def _open(self, task: Task) -> Lane:
        lane = Lane(task, len(self.lanes))
        self.lanes.append(lane)
        self._send(
            "open", lane.number, task.target, task.operation, task.count, task.size, task.keys,
            round(1000 * task.gap_s), round(1000 * task.timeout_s),
        )  # fmt: skip
        return lane

    def stop(self, lane: Lane) -> None:
        """End the lane, done or not; returns when it is over. Raises MeasurementFailed if it does
        not end, ClientEnded if the process has ended.
        """
        if lane.ended is None:
            lane.halt.set()
            if lane.work is None:
                self._send("stop", lane.number)
            elif not lane.started:
                lane.end(time.monotonic(), "stopped")
            if not lane.wait(_END_S):
                raise self._failure("a lane did not stop")
        self.check(lane)

    def check(self, lane: Lane) -> None:
        """Raises ClientEnded if the process has ended, and the lane with it."""
        if lane.reason == _GONE:
            raise self._failure(_GONE)

    def do(self, task: Task, timeout_s: float) -> None:
        """Do the whole task. Raises MeasurementFailed if that takes longer, ClientEnded if
        the process has ended.
        """
        lane = self.start(task)
        if not (lane.wait(timeout_s) and lane.is_done):
            self.stop(lane)
            good = sum(operation.outcome == "ok" for operation in lane.did)
            raise self._failure(
                f"{good} of {task.count} {task.operation} at {task.node} within {timeout_s:g} s"
            )

    def close(self) -> None:
        """End the process and its children."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        with suppress(ProcessLookupError):  # its children too, which hold its output open
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _send(self, *fields: object) -> None:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write("\t".join(map(str, fields)) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._failure(_GONE) from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._read_message(line.rstrip("\n").split("\t"))
        now = time.monotonic()
        for lane in list(self.lanes):
            lane.end(now, _GONE)
        self._ready.set()

    def _read_message(self, fields: Sequence[str]) -> None:
        if fields[0] == "did":
            start, end = int(fields[2]) / 1e9, int(fields[3]) / 1e9
            self.lanes[int(fields[1])].did.append(OperationTime(start, end, fields[4]))
        elif fields[0] == "end":
            lane = self.lanes[int(fields[1])]
            last = lane.did[-1].end if lane.did else time.monotonic()
            lane.end(last, fields[2])
        elif fields[0] == "open":
            self.lanes[int(fields[1])].is_open.set()
        elif fields[0] == "ready":
            self._up = True
            self._ready.set()

    def _failure(self, got: str) -> MeasurementFailed:
        kind = ClientEnded if got == _GONE else MeasurementFailed
        return kind(
            "the store's client",
            expected="that it runs until its end",
            got=f"{got}; it printed: {self._tail()}",
            hint=f"Its log is {self._log}.",
        )

    def _tail(self) -> str:
        return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip() or "nothing"


def _run_work(lane: Lane, work: Work) -> None:
    reason = "done"
    try:
        work(lane.halt)
    except SparecraftError as error:
        reason = str(error)
    now = time.monotonic()
    if lane.halt.is_set():
        reason = "stopped"
    outcome = {"done": "ok", "stopped": "timeout"}.get(reason, "error")
    lane.did.append(OperationTime(lane.started, now, outcome))
    lane.end(now, reason)


def command(
    role: Role, generation: str, sources: Sequence[str], opener: str, names: Mapping[str, str],
    folder: Path,
) -> tuple[str, ...]:  # fmt: skip
    """Return the command of a client, which is compiled if that was not done before.

    Parameters: role and generation, whose jars `ci/jars` has; names of machines by address, for a
    resolver that asks no server; folder, to which these are written. Raises EnvironmentMissing,
    DiskFull.
    """
    jars = _jars(role, generation)
    java = _program("java")
    own_sources = [role.directory / name for name in sources]
    classes = _compile(jars, [*own_sources, *sorted(_JAVA.glob("*.java"))])
    hosts = folder / "hosts"
    localhost = {"127.0.0.1": f"localhost {socket.gethostname()}"}  # clients look their own name up
    lines = [f"{address} {name}\n" for address, name in (localhost | dict(names)).items()]
    write_bytes(hosts, "".join(lines).encode())
    path = f"{classes}:{role.directory / generation}:{jars}/*"
    return (
        java, f"-Xmx{_HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true", f"-Djdk.net.hosts.file={hosts}", "-cp", path, _MAIN,
        opener,
    )  # fmt: skip


def _jars(role: Role, generation: str) -> Path:
    """Return the folder of the jars of this generation from the role's image; build/ROLE/GENERATION
    if the image has none.
    """
    pattern = role.build.get(f"{generation}/lib/")
    return (ROOT / pattern).parent if pattern else _BUILD / role.directory.name / generation


def _compile(jars: Path, sources: Sequence[Path]) -> Path:
    """Compile these sources, if that was not done before. Returns the folder of the classes."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    target = _BUILD / "clients" / f"{jars.parent.name}-{jars.name}-{digest.hexdigest()[:12]}"
    if target.is_dir():
        return target
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    arguments = [_program("javac"), "-proc:none", "-nowarn", "-d", str(new), "-cp", f"{jars}/*"]
    process = subprocess.run(
        [*arguments, *map(str, sources)], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise EnvironmentMissing(
            f"the client of {jars.parent.name} {jars.name}",
            expected="to compile",
            got=(process.stdout + process.stderr)[-_TAIL_BYTES:].strip(),
            hint="Check that `ci/jars` has fetched its jars.",
        )
    new.replace(target)
    return target


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise EnvironmentMissing(
            name,
            expected="a JDK on this host, for the stores' own clients",
            got="none",
            hint="Install one (Debian: default-jdk-headless), then call this again.",
        )
    return path
