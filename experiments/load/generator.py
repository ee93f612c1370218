"""The runner's side of the load generator: start a worker, give it the time, watch it, stop it,
read its records.

A worker is a separate process, any program (workers/README.md), so that the runner never delays a
request. It does not get the terminal's Ctrl-C. It ends when its plan ends, on SIGTERM, or when the
runner is gone (its socket closes), and in each case its measurements are in the file. A worker that
breaks these rules is ended with its whole process group.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from core.errors import DiskFull, InputError, MeasurementFailed
from core.json_object import JsonObject
from experiments.design.workers import DEFAULT, worker_command
from experiments.load.plan import MASTER_PORT, LoadPlan, RemoteWorkers, write_plan
from experiments.load.record_reader import ContractViolation, Done, RecordReader, message_of
from experiments.record.records import REQUESTS, RequestRecord

READY_TIMEOUT_S = 180.0  # more than a worker allows its own parts, on a busy machine
REMOTE_CONNECT_S = 60.0  # a worker's service starts it anew after each block
LOG_BYTES_MAX = 16 * 1024 * 1024
BUFFER_BYTES_MAX = 1024 * 1024
_LOOK_EVERY_S = 0.25
_TAIL_BYTES = 2000

State = Literal["starting", "ready", "running", "done", "stopped", "failed"]


@dataclass(frozen=True)
class LoadStatus:
    """The result of `poll`: `records` came since the last poll, `problem` says why it failed."""

    state: State
    records: tuple[RequestRecord, ...]
    recorded: int
    planned: int
    unfinished: int
    problem: str = ""


def remote_workers(count: int, waiting: int) -> RemoteWorkers | None:
    """Return where `count` workers connect; None if all load comes from this machine.

    It does if one worker is enough, or if no worker is `waiting` on another machine. Raises:
    InputError if some are waiting, but too few.
    """
    if count == 1 or waiting == 0:
        return None
    if count > waiting:
        raise InputError(
            "load.workers",
            expected=f"at most {waiting}: a worker waits on each load machine but the first",
            got=str(count),
            hint=f"Ask for fewer, or make the fleet with load_machines = {count + 1}.",
        )
    return RemoteWorkers("*", MASTER_PORT, REMOTE_CONNECT_S)


@dataclass(frozen=True)
class LoadGenerator:
    """Starts one worker per block; its files go into `directory`.

    worker: as a design names it, whose folder is `design`.
    """

    directory: Path
    t0_monotonic_s: float
    worker: str = DEFAULT
    design: Path = Path()
    remote: RemoteWorkers | None = None

    def start(self, plan: LoadPlan) -> LoadHandle:
        """Start the process; it loads its plan and waits for `go`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        stem = self.directory / f"block-{plan.repeat:02d}"
        plan = replace(plan, remote=self.remote)
        write_plan(stem.with_suffix(".plan.json"), plan)
        needs = (plan.client, plan.locustfile, plan.remote)
        in_python = any(need is not None for need in needs)
        command = worker_command(self.worker, self.design, in_python=in_python)
        return LoadHandle(plan, command, stem, self.t0_monotonic_s)


def with_sessions(records: pl.DataFrame, plan: LoadPlan) -> pl.DataFrame:
    """Return the records with the session that each is a step of."""
    if not plan.sessions:
        return records
    first: list[int] = []
    for position, before in enumerate(plan.after):
        first.append(position if before < 0 else first[before])
    steps = {
        position: (plan.sessions[session], first[position])
        for position, session in enumerate(plan.session_of)
        if session >= 0
    }
    record_steps = [steps.get(index) for index in records["index"].to_list()]
    return records.with_columns(
        session=pl.Series([step and step[0].name for step in record_steps], dtype=pl.String),
        session_number=pl.Series([step and step[1] for step in record_steps], dtype=pl.Int64),
        session_steps=pl.Series([step and step[0].steps for step in record_steps], dtype=pl.Int32),
    )


class LoadHandle:
    """A running worker. Use it from one thread, and always `stop` it; stopping twice is fine."""

    def __init__(
        self, plan: LoadPlan, command: Sequence[str], stem: Path, t0_monotonic_s: float
    ) -> None:
        self.plan = plan
        self.records_path = stem.with_suffix(".jsonl")
        self.log_path = stem.with_suffix(".log")
        self._t0_monotonic_s = t0_monotonic_s
        self._state: State = "starting"
        self._problem = ""
        self._done: Done | None = None
        self._buffer = b""
        self.records_path.unlink(missing_ok=True)
        self._reader = RecordReader(self.records_path, plan)
        self._control, worker_end = socket.socketpair()
        self._control.setblocking(False)
        with ExitStack() as unless_started, worker_end, self.log_path.open("wb") as log:
            unless_started.callback(self._control.close)
            self._process = _start_process(
                [
                    *command,
                    *("--plan", str(stem.with_suffix(".plan.json"))),
                    *("--records", str(self.records_path)),
                    *("--control-fd", str(worker_end.fileno())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(worker_end.fileno(),),
                start_new_session=True,
            )
            unless_started.pop_all()
        self._end = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """The worker's process id, and its group's."""
        return self._process.pid

    @property
    def start_s(self) -> float | None:
        """The block's start since the run's t0 [s]; None before `go`."""
        return self._reader.start_s

    @property
    def workers(self) -> list[JsonObject]:
        """Plan, records and CPU use of each process of the load, once the block is over."""
        return [use.model_dump() for use in self._done.workers] if self._done else []

    def wait_ready(self) -> None:
        """Wait until the worker only needs `go`. Raises MeasurementFailed with its log."""
        remote = self.plan.remote
        limit_s = READY_TIMEOUT_S + (remote.connect_timeout_s if remote else 0.0)
        end_s = time.monotonic() + limit_s
        self._hear()
        while self._state == "starting":
            if time.monotonic() > end_s:
                self._fail(f"no word within {limit_s:g} s that it is ready")
            else:
                select.select([self._control.fileno(), self._end], [], [], _LOOK_EVERY_S)
                self._hear()
        if self._state != "ready":
            self.stop()
            raise self.failure(self._problem or f"state {self._state}")

    def go(self, start_s: float) -> None:
        """Let the block begin `start_s` seconds after the run's t0, which must be in the future."""
        message = {"t0_s": self._t0_monotonic_s, "start_s": start_s}
        self._reader.start_s = start_s
        self._state = "running"
        with suppress(OSError):  # `_hear` notices that the worker is gone
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def poll(self) -> LoadStatus:
        """Return the state and the new records; returns at once."""
        self._hear()
        records = self._reader.take()
        if self._reader.problem:
            self._fail(self._reader.problem)
        done = self._done
        if done and self._state in ("done", "stopped"):
            expected_count = done.recorded - done.unwritten
            if self._reader.count != expected_count:
                self._fail(f"{self._reader.count:,} records, where it told of {expected_count:,}")
        return LoadStatus(
            self._state,
            records,
            self._reader.count,
            len(self.plan.offsets_s),
            done.unfinished if done else 0,
            self._problem,
        )

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the worker and wait for it: SIGTERM, after `timeout_s` SIGKILL to its group."""
        if self._process.returncode is None:
            if self._state not in ("done", "stopped"):
                os.kill(self.pid, signal.SIGTERM)
            select.select([self._end], [], [], timeout_s)
            # The wait comes last: until then no other process can have its number.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            select.select([self._end], [], [])
            self._hear()
            self._process.wait()
            self._control.close()
            os.close(self._end)

    def records(self) -> pl.DataFrame:
        """Return all that was measured, in the schema of requests.parquet, by index.

        Raises DiskFull when the worker could not write all of it.
        """
        done = self._done
        reader = RecordReader(self.records_path, self.plan)
        reader.start_s = self._reader.start_s
        rows = reader.take()
        if done and done.unwritten:
            raise DiskFull(
                str(self.records_path),
                expected="room for the records",
                got=f"{done.error}, {done.unwritten:,} records not written",
                hint=f"Make room and run again; {len(rows):,} records are kept there.",
            )
        block_columns = {
            "arm": self.plan.arm,
            "repeat": self.plan.repeat,
            "pair": self.plan.pair,
            "user": self.plan.load.user,
        }
        frame = pl.DataFrame([{**block_columns, **row} for row in rows], schema=REQUESTS)
        return with_sessions(frame, self.plan).sort("index")

    def failure(self, got: str) -> MeasurementFailed:
        """Return the reason why the block cannot count, with the last lines of the worker's log."""
        return MeasurementFailed(
            f"load worker, block {self.plan.repeat}",
            expected="it to be ready, to send its plan and to record each request",
            got=f"{got}; it said: {_tail(self.log_path) or 'nothing'}",
            hint="experiments/load/workers/README.md has the contract of load workers.",
        )

    def _hear(self) -> None:
        """Read the worker's messages, and notice its end."""
        if self._control.fileno() < 0:
            return
        has_ended = bool(select.select([self._end], [], [], 0)[0])  # before the last is heard
        closed = self._receive()
        *lines, self._buffer = self._buffer.split(b"\n")
        try:
            for line in lines:
                self._take(line)
            if len(self._buffer) > BUFFER_BYTES_MAX:
                raise ContractViolation("a line without end on its control socket")
        except ContractViolation as error:
            self._fail(str(error))
        if self.log_path.stat().st_size > LOG_BYTES_MAX:
            self._fail(f"a log of more than {LOG_BYTES_MAX} bytes")
        if self._done is None and (closed or has_ended):
            has_ended = has_ended or bool(select.select([self._end], [], [], _LOOK_EVERY_S)[0])
            self._fail(self._end_text() if has_ended else "the end of its control socket")

    def _receive(self) -> bool:
        """Read what has come, up to a bound. Returns true if the other end is closed."""
        while len(self._buffer) <= BUFFER_BYTES_MAX:
            try:
                data = self._control.recv(65536)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not data:
                return True
            self._buffer += data
        return False

    def _take(self, line: bytes) -> None:
        message = message_of(line)
        if not isinstance(message, Done):
            if self._state == "starting":
                self._state = "ready"
            return
        self._done = message
        if self._state == "failed":
            return
        if message.error and not message.unwritten:
            self._fail(message.error)
        elif message.arrivals_ended == len(self.plan.offsets_s):
            self._state = "done"
        elif message.arrivals_ended + message.unfinished == message.launched:
            self._state = "stopped"
        else:
            self._fail(
                f"{message.launched:,} requests launched, {message.arrivals_ended:,} recorded and "
                f"{message.unfinished} in flight"
            )

    def _end_text(self) -> str:
        exit_info = os.waitid(os.P_PIDFD, self._end, os.WEXITED | os.WNOWAIT)
        return f"its end, code or signal {exit_info.si_status if exit_info else 'unknown'}"

    def _fail(self, problem: str) -> None:
        self._state = "failed"
        self._problem = self._problem or problem


def _start_process(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, **options)
    except OSError as error:
        raise InputError(
            "load.worker",
            expected="a program that can be started",
            got=f"{command[0]}: {error.strerror}",
            hint="Correct its first line, or what it was built for.",
        ) from error


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return " / ".join(text.splitlines()[-5:])
