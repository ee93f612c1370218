"""The record of a run's rows: windows of time, and what was asked meanwhile. Times are the run's.

`limplock.json` has the windows, a repeat's base, one for each scenario in the order in which they
were, and the base again; `asked.parquet` every operation of every lane, `whitebox.parquet` what the
machines said of themselves. All that is said of a run follows from these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.kinds.limplock.scenarios import BASE
from experiments.record.records import write_json

FILE, ASKED_FILE, WHITEBOX_FILE = "limplock.json", "asked.parquet", "whitebox.parquet"
Key = tuple[str, str, str]
PROBE, ROW, BESIDE = "probe", "row", "beside"

ASKED = pl.Schema({
    "purpose": pl.String, "machine": pl.String, "operation": pl.String,
    "start_s": pl.Float64, "end_s": pl.Float64, "outcome": pl.String,
})  # fmt: skip
WHITEBOX = pl.Schema({
    "time_s": pl.Float64, "machine": pl.String, "metric": pl.String, "value": pl.Float64,
})  # fmt: skip


@dataclass(frozen=True)
class Window:
    """A run of a row's operation, and how long its fault was held.

    labels: what machines are called by their parts, since parts move; limping: the machine, also of
    a base; took_s: of the operation, at least so long where `cut`; gone_s: machines whose service
    ended, after so long; moved: whether parts were others at the end; errors: failed attempts;
    cold: services were started anew, and nothing was rehearsed since, nor, of a scenario, was the
    base run; stuck: a service could not be started again after it.
    """

    arm: str
    row: str
    part: str
    scenario: str
    repeat: int
    limping: str
    asked: str
    labels: Mapping[str, str]
    start_s: float
    end_s: float
    took_s: float
    cut: bool
    gone_s: Mapping[str, float]
    moved: bool
    errors: int
    whole_after_s: float | None = None  # until it was; None: of a base, or it was started anew
    cold: bool = False
    stuck: bool = False
    died_s: Mapping[str, float] = field(default_factory=dict)  # machines that ran out of memory

    @property
    def key(self) -> Key:
        """Arm, row and part."""
        return self.arm, self.row, self.part

    @property
    def length_s(self) -> float:
        """Of the window, not of the operation."""
        return self.end_s - self.start_s

    @property
    def waited(self) -> Duration:
        """The duration of the operation."""
        return Duration(self.took_s, at_least=self.cut)


def by_part(windows: Iterable[Window]) -> dict[Key, list[Window]]:
    """Return the windows of each arm, row and part, in the order in which these came."""
    found: dict[Key, list[Window]] = {}
    for window in windows:
        found.setdefault(window.key, []).append(window)
    return found


def later_bases(windows: Iterable[Window]) -> dict[int, Window]:
    """By repeat, of the windows of a row of one arm: one that was begun again has its later
    base."""
    return {window.repeat: window for window in windows if window.scenario == BASE}


@dataclass(frozen=True)
class RunInputs:
    """The content of limplock.json beside the windows: the request."""

    scale: float
    counts: Mapping[str, int]  # by row, of its operations
    timeout_factor: Mapping[str, float]
    shown: Sequence[Mapping[str, Any]]  # white-box metrics of the page
    abandoned: Sequence[str]  # for the page: why repeats were begun again, and why looks failed
    scales: Mapping[str, float] = field(default_factory=dict)  # by row
    monotonic_s: float | None = None  # second 0 on the clients' clock
    closing: Sequence[Window] = ()  # the base again, after all scenarios of a repeat


def client_log(arm: str, system: str) -> str:
    """Return the file of what a client printed."""
    return f"client-{arm}-{system}.log"


def write_windows(folder: Path, left: RunInputs, windows: Sequence[Window]) -> None:
    """limplock.json."""
    body = {**asdict(left), "windows": [asdict(window) for window in windows]}
    write_json(folder / FILE, body)


def read_windows(folder: Path) -> tuple[RunInputs, tuple[Window, ...]]:
    """Return the content that `write_windows` wrote."""
    body = json.loads((folder / FILE).read_text(encoding="utf-8"))
    windows = tuple(Window(**one) for one in body.pop("windows"))
    closing = tuple(Window(**one) for one in body.pop("closing", ()))
    return RunInputs(**body, closing=closing), windows
