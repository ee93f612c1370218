"""The runner's end of the load generator: start it, say when, watch it, stop it, read its records.

The generator is a process of its own (`locust --headless`), so that nothing the runner does delays
a request. It does not see the terminal's Ctrl-C; it ends when its plan ends, on SIGTERM, or when
the runner is gone (its socket closes), and in each case what was measured is in the file.

With several workers (`workers` of the load) that process is a master (`master.py`), and the workers
are processes beside it, or wait on other machines (`RemoteWorkers`).
"""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import polars as pl

from experiments.errors import DiskFull, InputError, MeasurementFailed
from experiments.load.local_workers import LocalWorkers, without_locust
from experiments.load.plan import LoadPlan, write_plan
from experiments.records import REQUESTS

_LOCUSTFILE = Path(__file__).with_name("locustfile.py")
READY_TIMEOUT_S = 30.0
MASTER_PORT = 5557  # Locust's own, for workers on other machines
REMOTE_CONNECT_S = 60.0  # a worker's service starts it anew after each block
_CLOCKS_S = 10.0  # beyond the workers' time-outs

State = Literal["starting", "ready", "running", "done", "stopped", "failed"]


class RequestRecord(TypedDict):
    """One line of the records file; times in seconds since the run's t0."""

    phase: str
    index: int
    name: str
    intended_s: float
    sent_s: float | None
    done_s: float | None
    latency_ms: float | None
    lag_ms: float | None
    outcome: str
    status: int
    bytes: int


@dataclass(frozen=True)
class LoadStatus:
    """What `poll` saw; `records` are those that came since the last poll."""

    state: State
    records: tuple[RequestRecord, ...]
    recorded: int
    planned: int
    unfinished: int


@dataclass(frozen=True)
class RemoteWorkers:
    """Workers on other machines; they connect to `bind`:`port` of this one (`worker.py`)."""

    bind: str
    port: int
    connect_timeout_s: float


def remote_workers(asked: int, waiting: int) -> RemoteWorkers | None:
    """Where `asked` workers are: None, on this machine, which alone makes one worker's load, and
    all of it where no worker is `waiting` elsewhere. Raises: InputError where too few are.
    """
    if asked == 1 or waiting == 0:
        return None
    if asked > waiting:
        raise InputError(
            "load.workers",
            expected=f"at most {waiting}: a worker waits on each load machine but the first",
            came=str(asked),
            do=f"Ask for fewer, or make the fleet with load_machines = {asked + 1}.",
        )
    return RemoteWorkers("*", MASTER_PORT, REMOTE_CONNECT_S)


class LoadGenerator:
    """Starts one generator per block; its files go into `directory`."""

    def __init__(
        self, directory: Path, *, t0_monotonic_s: float, remote: RemoteWorkers | None = None
    ) -> None:
        self._directory = directory
        self._t0_monotonic_s = t0_monotonic_s
        self._remote = remote

    def start(self, plan: LoadPlan) -> LoadHandle:
        """Start the process; it loads its plan and waits for `go`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        stem = self._directory / f"block-{plan.repeat:02d}"
        plan_path = stem.with_suffix(".plan.json")
        write_plan(plan_path, plan)
        return LoadHandle(plan, plan_path, stem, self._t0_monotonic_s, self._remote)


class LoadHandle:
    """A running generator. Use it from one thread, and always `stop` it; stopping twice is fine."""

    def __init__(
        self,
        plan: LoadPlan,
        plan_path: Path,
        stem: Path,
        t0_monotonic_s: float,
        remote: RemoteWorkers | None,
    ) -> None:
        self.plan = plan
        self.records_path = stem.with_suffix(".jsonl")
        self.log_path = stem.with_suffix(".log")
        self.priority = ""
        self._limit_s = READY_TIMEOUT_S
        self._workers: LocalWorkers | None = None
        self._t0_monotonic_s = t0_monotonic_s
        self._state: State = "starting"
        self._summary: dict[str, Any] = {}
        self._heard = b""
        self._read_to = 0
        self._recorded = 0
        self.records_path.unlink(missing_ok=True)
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        command = [*_locust(), *_files(plan_path, self.records_path, theirs.fileno())]
        if remote or plan.load.workers > 1:
            asked = remote or RemoteWorkers("127.0.0.1", 0, READY_TIMEOUT_S)
            command = [*_master(asked), *_files(plan_path, self.records_path, theirs.fileno())]
            self._limit_s = asked.connect_timeout_s + _CLOCKS_S
            if remote is None:
                self._workers = LocalWorkers(plan.load.workers, stem, asked.connect_timeout_s)
        with theirs, self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=without_locust(),
            )

    @property
    def pid(self) -> int:
        """The generator's process id, with several workers the master's."""
        return self._process.pid

    @property
    def worker_pids(self) -> list[int]:
        """Those of workers that were started beside the master."""
        return self._workers.pids if self._workers else []

    @property
    def workers(self) -> list[dict[str, Any]]:
        """What each worker was to do, did and took, once the block is over (`saturation.py`)."""
        return list(self._summary.get("workers", ()))

    def wait_ready(self) -> None:
        """Wait until the generator only needs `go`. Raises MeasurementFailed with its log."""
        while self._state == "starting":
            readable, _, _ = select.select([self._control], [], [], self._limit_s)
            if not readable:
                self.stop()
                raise self._failure(f"word from it within {self._limit_s:.0f} s", "none")
            self._hear()
        if self._state == "failed":
            raise self._failure("it to start", f"its end with code {self._process.wait()}")

    def go(self, start_s: float) -> None:
        """Let the block begin `start_s` seconds after the run's t0; choose a time to come."""
        message = {"t0_s": self._t0_monotonic_s, "start_s": start_s}
        self._control.sendall(json.dumps(message).encode() + b"\n")
        self._state = "running"

    def poll(self) -> LoadStatus:
        """The state and the new records; returns at once."""
        self._hear()
        records = self._new_records()
        self._recorded += len(records)
        planned = len(self.plan.offsets_s)
        unfinished = int(self._summary.get("unfinished", 0))
        return LoadStatus(self._state, records, self._recorded, planned, unfinished)

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the generator and wait for it: SIGTERM, after `timeout_s` SIGKILL."""
        if self._process.poll() is None:
            if self._state in ("starting", "ready", "running"):
                self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._hear()
        self._control.close()
        if self._workers:
            self._workers.stop(leaving=self._state in ("done", "stopped"))

    def records(self) -> pl.DataFrame:
        """All that was measured, in the schema of requests.parquet, by index.

        Raises DiskFull when the generator could not write all of it.
        """
        if self._summary.get("unwritten"):
            raise DiskFull(
                str(self.records_path),
                expected="room for the records",
                came=f"{self._summary['error']}, {self._summary['unwritten']} records not written",
                do=f"Make room and run again; {self._recorded_in_file()} records are kept there.",
            )
        lines = _complete_lines(self.records_path)
        rows = [json.loads(line) for line in lines]
        same = {
            "arm": self.plan.arm,
            "repeat": self.plan.repeat,
            "pair": self.plan.pair,
            "user": self.plan.load.user,
        }
        return pl.DataFrame([{**same, **row} for row in rows], schema=REQUESTS).sort("index")

    def _recorded_in_file(self) -> int:
        return len(_complete_lines(self.records_path))

    def _new_records(self) -> tuple[RequestRecord, ...]:
        if not self.records_path.exists():
            return ()
        with self.records_path.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._read_to += len(complete)
        return tuple(json.loads(line) for line in complete.splitlines())

    def _hear(self) -> None:
        """Take in what the generator said, and notice its end."""
        ended = False
        while not ended and self._control.fileno() >= 0:
            try:
                data = self._control.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            ended = not data
            self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if ended and self._state in ("starting", "ready", "running"):
            self._state = "failed"

    def _take(self, message: dict[str, Any]) -> None:
        if message["state"] == "listening":
            if self._workers:
                self._workers.start(message["port"])
        elif message["state"] == "ready":
            self._state = "ready"
            self.priority = message["priority"]
        else:
            self._summary = message
            ended = message["recorded"] + message["unfinished"]
            if message["recorded"] == message["planned"]:
                self._state = "done"
            else:
                # What was launched and is neither recorded nor in flight was lost to a defect.
                self._state = "stopped" if ended == message["launched"] else "failed"

    def _failure(self, expected: str, came: str) -> MeasurementFailed:
        logs = [self.log_path, *(self._workers.log_paths if self._workers else ())]
        said = " / ".join(line for log in logs for line in _tail(log)) or "nothing"
        return MeasurementFailed(
            f"load generator, block {self.plan.repeat}",
            expected=expected,
            came=f"{came}; it said: {said}",
            do=f"Its log is {self.log_path}.",
        )


def _locust() -> list[str]:
    return [
        *(sys.executable, "-m", "locust", "-f", str(_LOCUSTFILE)),
        *("--headless", "--only-summary", "--users", "1", "--exit-code-on-error", "0"),
    ]


def _master(workers: RemoteWorkers) -> list[str]:
    return [
        *(sys.executable, "-m", "experiments.load.master"),
        *("--bind", workers.bind, "--port", str(workers.port)),
        *("--connect-timeout", str(workers.connect_timeout_s)),
    ]


def _files(plan: Path, records: Path, control: int) -> list[str]:
    return ["--plan", str(plan), "--records", str(records), "--control-fd", str(control)]


def _tail(log: Path) -> list[str]:
    if not log.exists():
        return []
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]


def _complete_lines(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1].splitlines()
