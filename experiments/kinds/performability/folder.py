"""A run's files: its blocks, each with its fault and phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from core.json_object import JsonObject
from core.runfiles.events import Window, of_kind, read_events, run_end_s, windows, without_discarded
from core.runfiles.requests import measured
from core.statistics.percentiles import OK, time_out_of
from experiments.kinds.performability.phases import WHAT, Course, course
from experiments.kinds.performability.section import PerformabilitySection
from experiments.record.metrics.frames import arm_names, prepared
from experiments.record.metrics.performability import Ideal
from experiments.record.records import ARBITERS


@dataclass(frozen=True)
class MeasuredBlock:
    block: int
    pair: int
    arm: str
    fault: int
    requests: pl.DataFrame
    course: Course

    @property
    def failing(self) -> pl.DataFrame:
        """Requests that were due while the failure lasted."""
        return between(self.requests, *self.course.failure)

    def within(self, phase: str) -> pl.DataFrame:
        """Return the requests of a phase; none if the phase did not occur."""
        return between(self.requests, *self.course.spans.get(phase, (0.0, 0.0)))

    def lasted_s(self, phase: str) -> float:
        start_s, end_s = self.course.spans.get(phase, (0.0, 0.0))
        return end_s - start_s


@dataclass(frozen=True)
class Run:
    """All blocks of a run, with the settings and the ideal for their analysis."""

    arms: list[str]
    faults: list[JsonObject]
    section: PerformabilitySection
    nodes: dict[str, int]  # of each tier
    blocks: list[MeasuredBlock]
    ideal: Ideal

    def blocks_of(self, arm: str, fault: int | None = None) -> list[MeasuredBlock]:
        """Return an arm's blocks, all or those of one fault."""
        blocks = [block for block in self.blocks if block.arm == arm]
        return [block for block in blocks if fault in (None, block.fault)]


def read_run(folder: Path, manifest: Mapping[str, Any]) -> Run:
    """Return the blocks of a run's folder; those whose fault was not injected are left out."""
    spec = manifest["spec"]
    section = PerformabilitySection.model_validate(spec.get("performability") or {})
    frame = prepared(pl.read_parquet(folder / "requests.parquet"), time_out_of(manifest))
    file = folder / "arbiters.parquet"
    arbiters = pl.read_parquet(file) if file.is_file() else pl.DataFrame(schema=ARBITERS)
    events = without_discarded(read_events(folder / "events.jsonl"))
    run_windows = windows(events, run_end_s(frame, events, manifest))
    fault_windows: dict[int | None, list[Window]] = {}
    for window in of_kind(run_windows, "fault"):
        fault_windows.setdefault(window.repeat, []).append(window)
    arm_windows = {window.repeat: window for window in of_kind(run_windows, "arm")}
    resets = {
        window.repeat: (window.start_s, window.end_s) for window in of_kind(run_windows, WHAT)
    }
    requests = measured(frame)
    blocks = [
        _measured_block(
            requests.filter(repeat=block),
            block,
            fault_windows[block],
            arm_windows,
            arbiters,
            section,
            spec,
            resets.get(block),
        )
        for block in sorted(requests["repeat"].unique().to_list())
        if block in fault_windows
    ]
    arms = [str(arm) for arm in arm_names(frame, manifest)]
    nodes = {name: int(tier["nodes"]) for name, tier in spec["fleet"]["tiers"].items()}
    return Run(arms, spec["faults"], section, nodes, blocks, _ideal(blocks, arms))


def _measured_block(
    requests: pl.DataFrame,
    block: int,
    fault: Sequence[Window],
    arm_windows: Mapping[int | None, Window],
    arbiters: pl.DataFrame,
    section: PerformabilitySection,
    spec: Mapping[str, Any],
    reset: tuple[float, float] | None,
) -> MeasuredBlock:
    begin_s = float(requests["intended_s"].min())  # type: ignore[arg-type]
    end_s = float(requests["intended_s"].max())  # type: ignore[arg-type]
    if block in arm_windows:
        end_s = arm_windows[block].end_s
    struck = arbiters.filter(pl.col("server").is_in([window.machine for window in fault]))
    start_s, stop_s = min(window.start_s for window in fault), max(window.end_s for window in fault)
    planned_s = spec["phases"]["warm_up"] + spec["faults"][block % len(spec["faults"])]["at_s"]
    if block in arm_windows:  # a machine's fault has its event after the platform carried it out
        start_s = min(start_s, arm_windows[block].start_s + planned_s)
    return MeasuredBlock(
        block=block,
        pair=int(requests["pair"][0]),
        arm=str(requests["arm"][0]),
        fault=block % len(spec["faults"]),
        requests=requests,
        course=course(requests, (start_s, stop_s), (begin_s, end_s), struck, section, reset),
    )


def _ideal(blocks: Sequence[MeasuredBlock], arms: Sequence[str]) -> Ideal:
    """Return the best-case mean latency, that of the arm that is quickest before its faults."""
    means = {}
    for arm in arms:
        before = [block.within("before") for block in blocks if block.arm == arm]
        answered = pl.concat(before).filter(pl.col("outcome") == OK) if before else pl.DataFrame()
        if answered.height:
            means[arm] = float(answered["latency_ms"].to_numpy().mean()), answered.height
    if not means:
        return Ideal(None, "no request was answered before a fault")
    best = min(means, key=lambda arm: means[arm][0])
    mean_ms, requests = means[best]
    return Ideal(mean_ms, f"{requests:,} requests of {best} before its faults")


def between(requests: pl.DataFrame, start_s: float, end_s: float) -> pl.DataFrame:
    """Return the requests that were due in [start_s, end_s)."""
    return requests.filter(pl.col("intended_s").is_between(start_s, end_s, closed="left"))
