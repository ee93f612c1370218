"""A run of limplock's rows whose truth is known. For tests only; nothing here measures anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.runfiles.result import Result
from experiments.design import load_design
from experiments.kinds.limplock import KIND
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import CLOSING
from experiments.kinds.limplock.section import LimplockSection
from experiments.kinds.limplock.windows import (
    ASKED,
    ASKED_FILE,
    PROBE,
    ROW,
    WHITEBOX,
    WHITEBOX_FILE,
    RunInputs,
    Window,
    write_windows,
)
from experiments.record.manifest import spec_json
from experiments.record.records import write_json, write_table
from experiments.tests.manifest_fixture import made_manifest

MACHINES = ("ensemble-1", "ensemble-2", "ensemble-3")
KNOWN = rows()
BASE_S = 4.0
FAULT_S = 6.0
PROBE_S = 0.002
Slow = Callable[[str, str, bool], float]
"""How many times slower a probe is, by scenario, operation, and whether its node limps."""


@dataclass
class Truth:
    """The truth of a row: its operation's slowdown by scenario, and its probes'."""

    row: str
    part: str
    operation: Mapping[str, float]
    probes: Slow
    noise: float = 0.03  # of the logarithm of a base run
    timeout_factor: float = 12.0
    leaders: tuple[str, str, str] = ("ensemble-2", "ensemble-1", "ensemble-3")  # by repeat
    gone: Mapping[str, float] | None = None  # by label, since when
    moved: tuple[str, ...] = ()  # scenarios in which parts moved
    cold: tuple[str, ...] = ()  # scenarios that met services that were just started
    closing: float | None = None  # how much longer the base takes at each repeat's end
    bases_cut: int = 0  # repeats, from the first on, that ended with a base cut short


def leader_limps(scenario: str, operation: str, limps: bool) -> float:
    """Updates go through the leader, whose card everything of its own passes too."""
    severe = scenario in ("100", "1000")
    return float(scenario) / 5.0 if severe and (operation == "set" or limps) else 1.0


def nobody_limps(scenario: str, operation: str, limps: bool) -> float:
    """Only what the limping card carries."""
    del operation
    return 40.0 if limps and scenario in ("100", "1000") else 1.0


SLOW_LEADER = Truth(
    "Z3", "leader", {"10": 1.1, "100": 8.0, "1000": 200.0, "crash": 1.4}, leader_limps
)
SLOW_FOLLOWER = Truth(
    "Z4", "follower", {"10": 1.0, "100": 1.0, "1000": 1.05, "crash": 1.0}, nobody_limps
)


class Made:
    """The files of a run of these rows: `folder` has what a testbed would have written."""

    def __init__(self, folder: Path, *truths: Truth, arms: tuple[str, ...] = ("new",),
                 count: int = 2800, heap_mb: float | None = None) -> None:  # fmt: skip
        self.folder = folder
        self._rng = np.random.default_rng(7)
        self._at_s = 10.0
        self._count = count
        self._heap_mb = heap_mb
        self._windows: list[Window] = []
        self._closing: list[Window] = []
        self._asked: list[tuple[str, str, str, float, float, str]] = []
        for arm in arms:
            for repeat in range(3):
                for truth in truths:
                    self._repeat(arm, repeat, truth)
        self._write([truth.row for truth in truths], {t.row: t.timeout_factor for t in truths})

    def result(self) -> Result:
        """result.json of it, which is written too."""
        return KIND.conclude(self.folder)

    def _repeat(self, arm: str, repeat: int, truth: Truth) -> None:
        base_s = BASE_S * float(np.exp(self._rng.normal(0.0, truth.noise)))
        cut = repeat < truth.bases_cut
        self._window(arm, repeat, truth, "base", base_s, base_s, cut=cut)
        if cut:
            return
        for scenario, slower in truth.operation.items():
            limit_s = truth.timeout_factor * base_s
            took_s = min(slower * base_s, limit_s)
            length_s = max(FAULT_S, took_s)
            self._window(arm, repeat, truth, scenario, took_s, length_s, cut=took_s == limit_s)
        if truth.closing is not None:
            took_s = truth.closing * base_s
            self._window(arm, repeat, truth, "base", took_s, took_s, cut=False)
            self._closing.append(replace(self._windows.pop(), scenario=CLOSING))

    def _window(
        self, arm: str, repeat: int, truth: Truth, scenario: str, took_s: float, length_s: float,
        *, cut: bool,
    ) -> None:  # fmt: skip
        leader = truth.leaders[repeat]
        followers = [name for name in MACHINES if name != leader]
        limping = leader if truth.part == "leader" else followers[0]
        target = next(name for name in followers if name != limping)
        order = [limping, target, *followers] if truth.part == "follower" else [target, *followers]
        labels = {leader: "leader"}
        labels |= {n: f"follower-{k}" for k, n in enumerate(dict.fromkeys(order), start=1)}
        crashed = {limping: 0.0} if scenario == "crash" else {}
        gone = {name: since for name, label in labels.items()
                for part, since in (truth.gone or {}).items()
                if label == part and scenario != "base"}  # fmt: skip
        operation = KNOWN[truth.row].workload.operation
        start_s = self._at_s
        self._windows.append(
            Window(arm, truth.row, truth.part, scenario, repeat, limping, target, labels, start_s,
                   start_s + length_s, took_s, cut, {**gone, **crashed}, scenario in truth.moved, 0,
                   1.0, scenario in truth.cold)
        )  # fmt: skip
        self._asked += [
            (ROW, target, operation, start_s + k * took_s / 40,
             start_s + (k + 1) * took_s / 40, "ok")
            for k in range(40)
        ]  # fmt: skip
        for machine in labels:
            for operation in ("get", "set"):
                slower = truth.probes(scenario, operation, machine == limping)
                self._probes(machine, operation, start_s, length_s, slower,
                             fails=machine in crashed)  # fmt: skip
        self._at_s += length_s + 2.0

    def _probes(
        self, machine: str, operation: str, start_s: float, length_s: float, slower: float,
        *, fails: bool,
    ) -> None:  # fmt: skip
        at_s = start_s
        while at_s < start_s + length_s:
            took_s = PROBE_S * slower * float(np.exp(self._rng.normal(0.0, 0.1)))
            outcome = "error" if fails else "ok"
            self._asked.append((PROBE, machine, operation, at_s, at_s + took_s, outcome))
            at_s += max(0.15, took_s)

    def _write(self, names: list[str], timeout_factor: dict[str, float]) -> None:
        self._section = LimplockSection(rows=tuple(names))
        self.folder.mkdir(parents=True, exist_ok=True)
        metrics = [{"metric": "outstanding_requests", "title": "requests under way", "unit": 1.0}]
        counts = dict.fromkeys(names, self._count)
        inputs = RunInputs(0.4, counts, timeout_factor, metrics, [], closing=self._closing)
        write_windows(self.folder, inputs, self._windows)
        write_table(self.folder / ASKED_FILE, pl.DataFrame(self._asked, ASKED, orient="row"), ASKED)
        whitebox = [
            (float(second), machine, "outstanding_requests", float(second % 5))
            for second in range(0, round(self._at_s), 3)
            for machine in MACHINES
        ]
        if self._heap_mb is not None:
            whitebox += [(float(second), machine, "heap_max_mb", self._heap_mb)
                         for second in range(0, round(self._at_s), 3)
                         for machine in MACHINES]  # fmt: skip
        frame = pl.DataFrame(whitebox, WHITEBOX, orient="row")
        write_table(self.folder / WHITEBOX_FILE, frame, WHITEBOX)
        write_json(self.folder / "manifest.json", manifest_of(self._section))


def written(
    folder: Path, section: LimplockSection, windows: list[Window], limit_s: float
) -> Result:
    """The files of a run of Z3 with these windows and no probes, and its result."""
    folder.mkdir(parents=True, exist_ok=True)
    write_windows(folder, RunInputs(0.05, {"Z3": 350}, {"Z3": limit_s}, [], []), windows)
    write_table(folder / ASKED_FILE, pl.DataFrame(schema=ASKED), ASKED)
    write_table(folder / WHITEBOX_FILE, pl.DataFrame(schema=WHITEBOX), WHITEBOX)
    write_json(folder / "manifest.json", manifest_of(section))
    return KIND.conclude(folder)


def manifest_of(section: LimplockSection) -> dict[str, Any]:
    design = load_design("limplock-zookeeper")
    spec = spec_json(design, {"limplock": section.model_dump(mode="json")})
    return made_manifest(design.name, spec=spec, doses=[])
