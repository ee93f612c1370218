"""A run's folder for the report. Missing or incomplete files become notes, not errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from core.errors import InputError, SparecraftError
from core.json_object import JsonObject
from core.runfiles.events import Event, Window, read_events, run_end_s, windows, without_discarded
from core.runfiles.manifest import spec_of
from core.runfiles.result import FILE, read_result
from core.statistics.percentiles import time_out_of
from experiments.record.metrics.frames import arm_names, prepared
from experiments.record.records import ARBITERS, HOSTS, REQUESTS
from experiments.record.result import flat

T = TypeVar("T")


@dataclass
class RunFolder:
    """The content of a run's folder; `notes` names what is missing."""

    path: Path
    manifest: JsonObject = field(default_factory=dict)
    summary: JsonObject = field(default_factory=dict)  # result.json, head and body in one
    plan: JsonObject = field(default_factory=dict)
    simulated: JsonObject = field(default_factory=dict)
    requests: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REQUESTS))
    arbiters: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ARBITERS))
    hosts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HOSTS))
    events: list[Event] = field(default_factory=list)  # of blocks that count
    windows: list[Window] = field(default_factory=list)
    arms: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def spec(self) -> JsonObject:
        """The experiment's settings in the manifest; empty if the manifest has none."""
        return spec_of(self.manifest)


def read_folder(path: Path) -> RunFolder:
    """Return all of a run that can be read.

    Raises: InputError if `path` is not a folder.
    """
    if not path.is_dir():
        raise InputError(
            str(path),
            expected="the folder of a run",
            got="no folder",
            hint="Give results/EXPERIMENT/RUN or results/EXPERIMENT/latest.",
        )
    run = RunFolder(path)
    run.manifest = _read(run, "manifest.json", _json, {})
    run.summary = _read(run, FILE, lambda _: flat(read_result(path)), {})
    run.plan = _read(run, "plan.json", _json, {}) or dict(run.summary.get("plan") or {})
    if (path / "simulated.json").is_file():
        run.simulated = _read(run, "simulated.json", _json, {})
    events: list[Event] = _read(run, "events.jsonl", read_events, [])
    run.events = without_discarded(events)
    limit_ms = time_out_of(run.manifest)
    run.requests = _read(
        run,
        "requests.parquet",
        lambda file: prepared(pl.read_parquet(file), limit_ms),
        run.requests,
    )
    run.arbiters = _read(run, "arbiters.parquet", pl.read_parquet, run.arbiters)
    run.hosts = _read(run, "hosts.parquet", pl.read_parquet, run.hosts)
    for span in _discarded_spans(events, run.events):
        run.arbiters = run.arbiters.filter(~pl.col("time_s").is_between(*span))
        run.hosts = run.hosts.filter(~pl.col("time_s").is_between(*span))
    run.windows = windows(run.events, run_end_s(run.requests, run.events, run.manifest))
    run.arms = [str(arm) for arm in arm_names(run.requests, run.manifest)]
    return run


def _discarded_spans(
    events: Sequence[Event], counted_events: Sequence[Event]
) -> list[tuple[float, float]]:
    """Return begin and end of each discarded block [s]."""
    discarded = {event.get("repeat") for event in events} - {
        event.get("repeat") for event in counted_events
    }
    times: dict[Any, list[float]] = {}
    for event in events:
        if event.get("repeat") in discarded:
            times.setdefault(event["repeat"], []).append(float(event["time_s"]))
    return [(min(block_times), max(block_times)) for block_times in times.values()]


def _read(run: RunFolder, name: str, read: Callable[[Path], T], otherwise: T) -> T:
    file = run.path / name
    if not file.is_file():
        run.notes.append(f"{name} is not in the folder.")
        return otherwise
    try:
        return read(file)
    except (ValueError, OSError, pl.exceptions.PolarsError, SparecraftError) as error:
        first_line = str(error).strip().split("\n")[0]
        run.notes.append(f"{name} could not be read: {first_line}")
        return otherwise


def _json(file: Path) -> JsonObject:
    value = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value
