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
from experiments.record.records import ARBITERS, REQUESTS, read_table


@dataclass(frozen=True)
class Measured:
    """One block: its arm, its fault, the requests that count, and what became of it."""

    block: int
    pair: int
    arm: str
    fault: int
    requests: pl.DataFrame
    course: Course

    def within(self, phase: str) -> pl.DataFrame:
        """Return the requests of a phase; none if the phase did not occur."""
        return between(self.requests, *self.course.spans.get(phase, (0.0, 0.0)))

    def lasted_s(self, phase: str) -> float:
        """Return the duration of a phase."""
        start_s, end_s = self.course.spans.get(phase, (0.0, 0.0))
        return end_s - start_s


@dataclass(frozen=True)
class Run:
    """All blocks of a run, and what they are measured against."""

    arms: list[str]
    faults: list[JsonObject]
    section: PerformabilitySection
    nodes: dict[str, int]  # of each tier
    blocks: list[Measured]
    ideal: Ideal


def read_run(folder: Path, manifest: Mapping[str, Any]) -> Run:
    """Return the blocks of a run's folder; those whose fault was not injected are left out."""
    spec = manifest["spec"]
    section = PerformabilitySection.model_validate(spec.get("performability") or {})
    frame = prepared(read_table(folder / "requests.parquet", REQUESTS), time_out_of(manifest))
    file = folder / "arbiters.parquet"
    arbiters = read_table(file, ARBITERS) if file.is_file() else pl.DataFrame(schema=ARBITERS)
    events = without_discarded(read_events(folder / "events.jsonl"))
    found = windows(events, run_end_s(frame, events, manifest))
    lasted: dict[int | None, list[Window]] = {}
    for one in of_kind(found, "fault"):
        lasted.setdefault(one.repeat, []).append(one)
    loaded = {one.repeat: one for one in of_kind(found, "arm")}
    resets = {one.repeat: (one.start_s, one.end_s) for one in of_kind(found, WHAT)}
    counted = measured(frame)
    blocks = [
        _measured(
            counted.filter(repeat=block),
            block,
            lasted[block],
            loaded,
            arbiters,
            section,
            spec,
            resets.get(block),
        )
        for block in sorted(counted["repeat"].unique().to_list())
        if block in lasted
    ]
    arms = [str(arm) for arm in arm_names(frame, manifest)]
    nodes = {name: int(tier["nodes"]) for name, tier in spec["fleet"]["tiers"].items()}
    return Run(arms, spec["faults"], section, nodes, blocks, _ideal(blocks, arms))


def _measured(
    requests: pl.DataFrame,
    block: int,
    fault: Sequence[Window],
    loaded: Mapping[int | None, Window],
    arbiters: pl.DataFrame,
    section: PerformabilitySection,
    spec: Mapping[str, Any],
    reset: tuple[float, float] | None,
) -> Measured:
    begin_s = float(requests["intended_s"].min())  # type: ignore[arg-type]
    end_s = loaded[block].end_s if block in loaded else float(requests["intended_s"].max())  # type: ignore[arg-type]
    struck = arbiters.filter(pl.col("server").is_in([one.machine for one in fault]))
    start_s, stop_s = min(one.start_s for one in fault), max(one.end_s for one in fault)
    asked_s = spec["phases"]["warm_up"] + spec["faults"][block % len(spec["faults"])]["at_s"]
    if block in loaded:  # a machine's fault is told of once the platform has carried it out
        start_s = min(start_s, loaded[block].start_s + asked_s)
    return Measured(
        block=block,
        pair=int(requests["pair"][0]),
        arm=str(requests["arm"][0]),
        fault=block % len(spec["faults"]),
        requests=requests,
        course=course(requests, (start_s, stop_s), (begin_s, end_s), struck, section, reset),
    )


def _ideal(blocks: Sequence[Measured], arms: Sequence[str]) -> Ideal:
    """Return the best-case mean latency: of the arm that is quickest before its faults."""
    means = {}
    for arm in arms:
        before = [one.within("before") for one in blocks if one.arm == arm]
        ok = pl.concat(before).filter(pl.col("outcome") == OK) if before else pl.DataFrame()
        if ok.height:
            means[arm] = float(ok["latency_ms"].to_numpy().mean()), ok.height
    if not means:
        return Ideal(None, "no request was answered before a fault")
    best = min(means, key=lambda arm: means[arm][0])
    return Ideal(means[best][0], f"{means[best][1]} requests of {best} before its faults")


def between(requests: pl.DataFrame, start_s: float, end_s: float) -> pl.DataFrame:
    """Requests that were to be sent in [start_s, end_s)."""
    return requests.filter(pl.col("intended_s").is_between(start_s, end_s, closed="left"))
