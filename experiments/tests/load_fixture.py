"""Plans for the servers of `servers.py`, and load generators that carry them out."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from experiments.design.experiment import SentLoad
from experiments.design.schedule import PhaseWindow
from experiments.design.workloads import Operation
from experiments.load.generator import LoadGenerator, LoadHandle, LoadStatus
from experiments.load.plan import LoadPlan

CONNECT_S = 1.0  # limits that a test waits for
RESPONSE_S = 4.0
PATIENT_S = 30.0  # of a server that answers: a host that stalls makes no outcome another
LONG_S = 60.0  # a limit that no test waits for
LEAD_S = 0.3

# What each path of `servers.py` leads to: outcome and status.
EXPECTED = {
    "good": ("ok", 200),
    "chunked": ("ok", 200),
    "until_close": ("ok", 200),
    "leave": ("ok", 200),
    "wrong_title": ("bad_content", 200),
    "garbage": ("bad_content", 0),
    "fails": ("bad_status", 500),
    "redirects": ("bad_status", 302),
    "reset": ("aborted_connection", 0),
    "cut": ("aborted_connection", 200),
    "cut_chunked": ("aborted_connection", 200),
    "never": ("time_out", 0),
    "trickle": ("time_out", 200),
}


def make_plan(
    entry: str | Sequence[str],
    paths: Sequence[str],
    *,
    gap_s: float = 0.02,
    connect_s: float = PATIENT_S,
    response_s: float = PATIENT_S,
    max_in_flight: int = 1000,
) -> LoadPlan:
    """One arrival for each path, `gap_s` apart; the first fifth is warm-up."""
    names = tuple(dict.fromkeys(paths))
    length_s = len(paths) * gap_s
    load = SentLoad(
        user="wiki-reader",
        arrivals="constant",
        rate_per_s=1 / gap_s,
        connect_timeout_s=connect_s,
        response_timeout_s=response_s,
        max_in_flight=max_in_flight,
    )
    return LoadPlan(
        entries={"web": (entry,) if isinstance(entry, str) else tuple(entry)},
        load=load,
        arm="baseline",
        repeat=3,
        pair=1,
        windows=(
            PhaseWindow("warm-up", 0.0, length_s / 5),
            PhaseWindow("measure", length_s / 5, length_s),
        ),
        operations=tuple(Operation(name, f"/{name}", "<title>Abash", "web") for name in names),
        offsets_s=tuple(index * gap_s for index in range(len(paths))),
        operation_of=tuple(names.index(path) for path in paths),
    )


PLAN = make_plan("http://127.0.0.1:1/", ["good"])  # of which nothing is sent
RECORD = {
    "phase": "warm-up", "index": 0, "name": "good", "intended_s": 0.0, "sent_s": 0.0,
    "done_s": 0.0, "latency_ms": 0.0, "lag_ms": 0.0, "outcome": "ok", "status": 200, "bytes": 1,
}  # fmt: skip


def shared(plan: LoadPlan, workers: int) -> LoadPlan:
    return replace(plan, load=plan.load.model_copy(update={"workers": workers}))


def follow(handle: LoadHandle, until: Callable[[LoadStatus], bool]) -> LoadStatus:
    """Poll until a condition holds."""
    end_s = time.monotonic() + 120
    while not until(status := handle.poll()):
        assert time.monotonic() < end_s, f"{status}: {handle.log_path.read_text()}"
        select.select([], [], [], 0.02)
    return status


def waiting(directory: Path, plan: LoadPlan, t0_s: float = 0.0, **options: Any) -> LoadHandle:
    """Start a generator that waits for the word to go; `options` are LoadGenerator's."""
    return LoadGenerator(directory, t0_monotonic_s=t0_s, **options).start(plan)


def begun(directory: Path, plan: LoadPlan, **options: Any) -> LoadHandle:
    """Start a generator and give it the word to go."""
    t0_s = time.monotonic()
    handle = waiting(directory, plan, t0_s, **options)
    handle.wait_ready()
    handle.go(time.monotonic() - t0_s + LEAD_S)
    return handle


def run(directory: Path, plan: LoadPlan, **options: Any) -> tuple[pl.DataFrame, LoadStatus]:
    """Carry out the whole plan; return its records and status."""
    return ended(begun(directory, plan, **options))


def ended(handle: LoadHandle) -> tuple[pl.DataFrame, LoadStatus]:
    """Wait until the generator ends by itself; return its records and status."""
    try:
        status = follow(handle, lambda status: status.state not in ("ready", "running"))
    finally:
        handle.stop()
    return handle.records(), status


def written(path: Path, text: str) -> Path:
    """Write a file with this text, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def children(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started."""
    pids = list[int]()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            pids += map(int, file.read_text().split())
    return pids


def alive(pids: Iterable[int]) -> list[int]:
    """Return the processes that do not end in time; a killed process ends soon."""
    return [pid for pid in pids if not _ends(pid)]


def _ends(pid: int) -> bool:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([watch], [], [], 60)
    os.close(watch)
    return bool(ended)
