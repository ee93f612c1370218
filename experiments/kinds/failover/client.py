"""The client program of one block: its start, output and end, and its records."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
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
        "outcome": pl.String,  # ok | gave_up | wrong: not this call's, or not of one made once
        "sent": pl.Int32,  # how often; 1 where nothing went wrong
        "needless": pl.Boolean,  # sent a second time, and the first server's reply came first
        "server": pl.String,  # who answered
        **{f"{part}_ms": pl.Float64 for part in PARTS},
    }
)
_MOST = 10_000_000  # invocations of a client: it is ended before
_ASKED_S = 30.0  # until its first reply
_END_S = 45.0  # it may be in an invocation that is about to be given up
_TAIL_BYTES = 2000


class Client:
    """The process; always `close` it, which is harmless after `finish`."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._in_use = ""
        self._heard = threading.Event()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="client", daemon=True)
        self._reader.start()

    def await_first_reply(self) -> None:
        """Wait for the first reply. Raises MeasurementFailed if there is none."""
        deadline = time.monotonic() + _ASKED_S
        while not self._heard.wait(0.1):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise self._failed(f"a first reply within {_ASKED_S:g} s")

    @property
    def in_use(self) -> str:
        """The server that answered client 0 last."""
        return self._in_use

    def finish(self) -> None:
        """End it. Raises MeasurementFailed if it ended before, or does not end."""
        if self._process.poll() is not None:
            raise self._failed("the client to go on until the block's end")
        self._process.terminate()
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"the client's end within {_END_S:g} s") from error
        if status != 0:
            raise self._failed("exit status 0")

    def close(self) -> None:
        """Kill the client."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            client, _, server = line.strip().partition(" ")
            if client == "0":
                self._in_use = server
                self._heard.set()

    def _failed(self, expected: str) -> MeasurementFailed:
        tail = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        got = f"exit status {self._process.poll()}: {tail}"
        return MeasurementFailed(f"the client ({self._log.name})", expected=expected, got=got)


def plan_of(
    told: Mapping[str, Any], clients: int, arm: Strategy, section: FailoverSection
) -> dict[str, object]:
    """Return the program's orders; README.md has the keys.

    Parameters: told, what its service adds.
    """
    return {
        **told,
        "clients": clients,
        "invocations": _MOST,
        "calls": section.calls,
        "gap_s": section.gap_ms / 1e3,
        "strategy": arm.strategy,
        "wait_s": arm.wait_s,
        "patience_s": section.patience_s,
        "give_up_s": section.give_up_s,
    }


def read_records(path: Path, t0: float, **block: Any) -> pl.DataFrame:
    """Return a block's invocations, on the run's clock; a torn last line is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows.append({**block, **row, "start_s": row["start_s"] - t0})
    return pl.DataFrame(rows, INVOCATIONS)
