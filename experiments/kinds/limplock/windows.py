"""The record of a run's rows: windows of time, and the operations in them. Times are the run's.

`limplock.json` has the windows: for each repeat its base, one for each scenario in their order, and
the base again. `asked.parquet` has every operation of every lane, `whitebox.parquet` the machines'
own metrics. All results of a run follow from these files.
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
    """A run of a row's operation, and the time for which its fault was held.

    labels: names of machines by their parts, because parts move; limping: the machine that limps,
    or that would limp in a base; took_s: time of the operation, at least that long if `cut`;
    gone_s: machines whose service ended, with the time until then; moved: True if parts had changed
    at the end; errors: failed attempts; cold: services were started anew, and there was no
    rehearsal since (of a scenario: no base either); stuck: a service could not be started again
    after the fault.
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
    whole_after_s: float | None = None  # time of recovery; None: a base, or it was started anew
    cold: bool = False
    stuck: bool = False
    died_s: Mapping[str, float] = field(default_factory=dict)  # machines that ran out of memory

    @property
    def key(self) -> Key:
        """Arm, row and part."""
        return self.arm, self.row, self.part

    @property
    def length_s(self) -> float:
        """Length of the window, not of the operation."""
        return self.end_s - self.start_s

    @property
    def died_by_part(self) -> dict[str, float]:
        """Time until each server ran out of memory, by the server's part [s]."""
        return {self.labels.get(name, name): since_s for name, since_s in self.died_s.items()}

    @property
    def duration(self) -> Duration:
        return Duration(self.took_s, at_least=self.cut)


def group_by_part(windows: Iterable[Window]) -> dict[Key, list[Window]]:
    groups: dict[Key, list[Window]] = {}
    for window in windows:
        groups.setdefault(window.key, []).append(window)
    return groups


def later_bases(windows: Iterable[Window]) -> dict[int, Window]:
    """Return the base of each repeat from the windows of a row of one arm. A repeat that was begun
    again has its later base."""
    return {window.repeat: window for window in windows if window.scenario == BASE}


@dataclass(frozen=True)
class RunInputs:
    """The content of limplock.json beside the windows: the parameters of the run."""

    scale: float
    counts: Mapping[str, int]  # by row, of its operations
    timeout_factor: Mapping[str, float]
    shown: Sequence[Mapping[str, Any]]  # white-box metrics of the page
    abandoned: Sequence[str]  # reasons for the page: repeats begun again, failed looks
    scales: Mapping[str, float] = field(default_factory=dict)  # by row
    monotonic_s: float | None = None  # second 0 on the clients' clock
    closing: Sequence[Window] = ()  # the base again, after all scenarios of a repeat

    def closing_bases(self, key: Key) -> dict[int, Window]:
        return {window.repeat: window for window in self.closing if window.key == key}


def client_log(arm: str, system: str) -> str:
    return f"client-{arm}-{system}.log"


def write_windows(folder: Path, inputs: RunInputs, windows: Sequence[Window]) -> None:
    body = {**asdict(inputs), "windows": [asdict(window) for window in windows]}
    write_json(folder / FILE, body)


def read_windows(folder: Path) -> tuple[RunInputs, tuple[Window, ...]]:
    body = json.loads((folder / FILE).read_text(encoding="utf-8"))
    windows = tuple(Window(**fields) for fields in body.pop("windows"))
    closing = tuple(Window(**fields) for fields in body.pop("closing", ()))
    return RunInputs(**body, closing=closing), windows
