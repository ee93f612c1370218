"""The client program of one block: its start, output and end, and its records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from core.errors import MeasurementFailed
from experiments.kinds.failover.section import FailoverSection, Strategy

PARTS = ("detection", "waiting", "naming", "lock", "connecting", "again")
INVOCATIONS = pl.Schema(
    {
        "arm": pl.String,
        "fault": pl.String,
        "clients": pl.Int32,
        "block": pl.Int32,
        "client": pl.Int32,
        "id": pl.Int32,  # as servers know the client
        "number": pl.Int64,
        "method": pl.String,
        "start_s": pl.Float64,  # since the run's t0
        "latency_ms": pl.Float64,
        "outcome": pl.String,  # ok | gave_up | wrong: another call's reply, or not made once
        "sent": pl.Int32,  # number of times; 1 if nothing went wrong
        "needless": pl.Boolean,  # sent a second time, and the first server's reply came first
        "server": pl.String,  # who answered
        **{f"{part}_ms": pl.Float64 for part in PARTS},
    }
)
_INVOCATIONS_MOST = 10_000_000  # of a client; the block ends before
_FIRST_REPLY_S = 30.0  # until its first reply
_END_S = 45.0  # it may be in an invocation that is about to be given up
_TAIL_BYTES = 2000


class Client:
    """The process; always `close` it, which is harmless after `finish`."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._in_use = ""
        self._has_replied = threading.Event()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read_output, name="client", daemon=True)
        self._reader.start()

    def await_first_reply(self) -> None:
        """Wait for the first reply. Raises MeasurementFailed if there is none."""
        deadline = time.monotonic() + _FIRST_REPLY_S
        while not self._has_replied.wait(0.1):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise self._failure(f"a first reply within {_FIRST_REPLY_S:g} s")

    @property
    def in_use(self) -> str:
        """The server that answered client 0 last."""
        return self._in_use

    def finish(self) -> None:
        """End the program. Raises MeasurementFailed if it ended before, or does not end."""
        if self._process.poll() is not None:
            raise self._failure("the client to go on until the block's end")
        self._process.terminate()
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"the client's end within {_END_S:g} s") from error
        if status != 0:
            raise self._failure("exit status 0")

    def close(self) -> None:
        """Kill the client and its children, which hold its output open."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            client, _, server = line.strip().partition(" ")
            if client == "0":
                self._in_use = server
                self._has_replied.set()

    def _failure(self, expected: str) -> MeasurementFailed:
        tail = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        got = f"exit status {self._process.poll()}: {tail}"
        return MeasurementFailed(f"the client ({self._log.name})", expected=expected, got=got)


def plan_of(
    service_plan: Mapping[str, Any], clients: int, arm: Strategy, section: FailoverSection
) -> dict[str, object]:
    """Return the plan of the client program; README.md has the keys.

    Parameters: service_plan, the keys that the service adds.
    """
    return {
        **service_plan,
        "clients": clients,
        "invocations": _INVOCATIONS_MOST,
        "calls": section.calls,
        "gap_s": section.gap_ms / 1e3,
        "strategy": arm.strategy,
        "wait_s": arm.wait_s,
        "patience_s": section.patience_s,
        "give_up_s": section.give_up_s,
    }


def read_records(path: Path, t0: float, **block: Any) -> pl.DataFrame:
    """Return the invocations of a block's record, on the run's clock, without a torn last line."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows.append({**block, **row, "start_s": row["start_s"] - t0})
    return pl.DataFrame(rows, INVOCATIONS)
