"""A run of `redis-faults` whose outages are known. For tests only; nothing here measures anything.

Every request takes 20 ms, give or take a tenth. A fault takes every fourth answer (they time
out after 2 s) until its arbiter gives the machine up, 3 s later; then all is well on `replicated`,
and 80 ms slow on `baseline` until 4 s after the fault's end. `net.limp` is never noticed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from experiments import kinds
from experiments.design import Design, load_design
from experiments.kinds.performability.measure import fault_blocks
from experiments.record.manifest import spec_json
from experiments.record.records import ARBITERS, REQUESTS, EventLog, write_json, write_table
from experiments.record.result import Result, result_of
from experiments.tests.report_fixture import T0, event

NOTICED_S = 3.0
SLOW_AFTER_S = 4.0
LOST_EVERY = 4  # requests, of which one is lost
QUICK_MS, SLOW_MS, TIME_OUT_MS = 20.0, 100.0, 2000.0
_GAP_S = 3.0
_VERDICTS = ("measurement", "injection", "revert", "cleanup")


def write_run(folder: Path, name: str = "redis-faults") -> Result:
    """All files of the run, its result and its page."""
    folder.mkdir(parents=True, exist_ok=True)
    design = load_design(name)
    kind = kinds.kind_of(design)
    section = kinds.section_of(kind, design)
    rng = np.random.default_rng(20261124)
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    polls: list[dict[str, Any]] = []
    length_s = design.experiment.phases.warm_up + design.experiment.phases.measure + _GAP_S
    for number, (block, fault) in enumerate(fault_blocks(design.experiment)):
        _block(design, rng, block, fault, 5.0 + number * length_s, rows, events, polls)
    write_table(folder / "requests.parquet", pl.DataFrame(rows, schema=REQUESTS), REQUESTS)
    write_table(folder / "arbiters.parquet", pl.DataFrame(polls, schema=ARBITERS), ARBITERS)
    log = EventLog(folder / "events.jsonl")
    for line in events:
        log.append(line)
    log.close()
    manifest = {
        "experiment": design.fleet.experiment, "run": "20261124T000000Z", "platform": "local",
        "started_at": T0.isoformat(), "seed": 1, "command": ["sparecraft", "run", name],
        "verdicts": {name: {"ok": True, "reasons": []} for name in _VERDICTS},
        "spec": spec_json(design, {kind.name: section.model_dump(mode="json")}),
    }  # fmt: skip
    write_json(folder / "manifest.json", manifest)
    result = result_of(kind.name, manifest, kind.analyse(folder))
    write_json(folder / "result.json", result)
    kind.write_page(folder)
    return result


def _block(
    design: Design,
    rng: np.random.Generator,
    block: Any,
    fault: int,
    start_s: float,
    rows: list[dict[str, Any]],
    events: list[dict[str, Any]],
    polls: list[dict[str, Any]],
) -> None:
    experiment = design.experiment
    asked = experiment.faults[fault]
    warm_s, end_s = experiment.phases.warm_up, start_s + experiment.phases.warm_up
    end_s += experiment.phases.measure
    began_s = start_s + warm_s + asked.at_s
    ended_s = began_s + (asked.for_s or 0.0)
    tags: dict[str, Any] = {"arm": block.arm, "repeat": block.repeat}
    struck = {**tags, "machine": asked.select.machine, "id": f"f{block.repeat}"}
    events += [
        event(start_s, "arm", block.arm, "start", **tags),
        event(began_s, "fault", asked.kind, "inject", duration_s=asked.for_s, **struck),
        event(ended_s, "fault", asked.kind, "revert", **struck),
        event(end_s, "arm", block.arm, "end", **tags),
    ]
    noticed_s = ended_s if asked.kind == "net.limp" else began_s + NOTICED_S
    arrivals = np.arange(start_s, end_s, 1.0 / experiment.load.rate_per_s)
    for index, at_s in enumerate(arrivals):
        lost = began_s <= at_s < noticed_s and index % LOST_EVERY == 0
        slow = block.arm == "baseline" and noticed_s <= at_s < ended_s + SLOW_AFTER_S
        took_ms = TIME_OUT_MS if lost else (SLOW_MS if slow else QUICK_MS) * rng.normal(1.0, 0.1)
        phase = "warm-up" if at_s < start_s + warm_s else "measure"
        rows.append({
            "arm": block.arm, "repeat": block.repeat, "pair": block.pair, "phase": phase,
            "index": index, "user": experiment.load.user, "name": "read",
            "intended_s": at_s, "sent_s": at_s, "done_s": at_s + took_ms / 1e3,
            "latency_ms": took_ms, "lag_ms": 0.05, "outcome": "time_out" if lost else "ok",
            "status": 0, "bytes": 0 if lost else 50_000,
        })  # fmt: skip
    for at_s in np.arange(start_s, end_s, 0.5):
        alive = not noticed_s <= at_s < ended_s
        server = {"server": asked.select.machine, "alive": alive}
        polls.append({**dict.fromkeys(ARBITERS.names()), "time_s": float(at_s), **server})
