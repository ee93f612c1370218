"""A run of `redis-faults` whose outages are known. For tests only; nothing here measures anything.

Every request takes 20 ms, give or take a tenth. A fault takes every fourth answer (they time
out after 2 s) until its arbiter gives the machine up, 3 s later; then all is well on the second
arm, and 80 ms slow on the first until 4 s after the fault's end. `net.limp` is never noticed.

Where the design has an operator, the first arm goes on to lose every fourth answer after a process
crashed, until all are restarted `wait_s` after the fault's end; for 2 s more all are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.runfiles.result import Result
from experiments import kinds
from experiments.design import Design, load_design
from experiments.kinds.performability.measure import fault_blocks
from experiments.kinds.performability.section import Operator
from experiments.record.manifest import spec_json
from experiments.record.records import ARBITERS, REQUESTS, EventLog, write_json, write_table
from experiments.tests.manifest_fixture import made_manifest
from experiments.tests.report_fixture import T0, event

NOTICED_S = 3.0
SLOW_AFTER_S = 4.0
LOST_EVERY = 4  # requests, of which one is lost
QUICK_MS, SLOW_MS, TIME_OUT_MS = 20.0, 100.0, 2000.0
RESET_S = 2.0
_GAP_S = 3.0


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
        start_s = 5.0 + number * length_s
        _block(design, section.operator, rng, block, fault, start_s, rows, events, polls)
    write_table(folder / "requests.parquet", pl.DataFrame(rows, schema=REQUESTS), REQUESTS)
    write_table(folder / "arbiters.parquet", pl.DataFrame(polls, schema=ARBITERS), ARBITERS)
    log = EventLog(folder / "events.jsonl")
    for line in events:
        log.append(line)
    log.close()
    fills = [
        {"repeat": index, "arm": arm, "requests": 1000, "failed": 0, "took_s": 1.0,
         "sources": {"disk": 0.1, "memory": 0.9}}
        for index, arm in enumerate(design.experiment.arms)
    ]  # fmt: skip
    spec = spec_json(design, {kind.name: section.model_dump(mode="json")})
    manifest = made_manifest(name, started_at=T0.isoformat(), fills=fills, spec=spec)
    write_json(folder / "manifest.json", manifest)
    result = kind.conclude(folder)
    kind.write_page(folder)
    return result


def under(result: Result, fault: str, arm: str) -> dict[str, Any]:
    [entry] = [entry for entry in result["performability"]["faults"] if entry["name"] == fault]
    figures: dict[str, Any] = entry["arms"][arm]
    return figures


def _block(
    design: Design,
    operator: Operator | None,
    rng: np.random.Generator,
    block: Any,
    fault: int,
    start_s: float,
    rows: list[dict[str, Any]],
    events: list[dict[str, Any]],
    polls: list[dict[str, Any]],
) -> None:
    experiment = design.experiment
    fault_spec = experiment.faults[fault]
    warm_s, end_s = experiment.phases.warm_up, start_s + experiment.phases.warm_up
    end_s += experiment.phases.measure
    began_s = start_s + warm_s + fault_spec.at_s
    ended_s = began_s + (fault_spec.for_s or 0.0)
    tags: dict[str, Any] = {"arm": block.arm, "repeat": block.repeat}
    struck = {**tags, "machine": fault_spec.select.machine, "id": f"f{block.repeat}"}
    events += [
        event(start_s, "arm", block.arm, "start", **tags),
        event(began_s, "fault", fault_spec.kind, "inject", duration_s=fault_spec.for_s, **struck),
        event(ended_s, "fault", fault_spec.kind, "revert", **struck),
        event(end_s, "arm", block.arm, "end", **tags),
    ]
    noticed_s = ended_s if fault_spec.kind == "net.limp" else began_s + NOTICED_S
    is_first_arm = block.arm == next(iter(experiment.arms))
    reset_s = (np.inf, np.inf)
    if operator is not None and is_first_arm and fault_spec.kind == "process.crash":
        reset_s = (ended_s + operator.wait_s, ended_s + operator.wait_s + RESET_S)
        operator_tags = {**tags, "id": f"operator-{block.repeat}"}
        events += [
            event(reset_s[0], "operator", "restart", "start", **operator_tags),
            event(reset_s[1], "operator", "restart", "end", **operator_tags),
        ]
    lost_until_s = reset_s[0] if np.isfinite(reset_s[0]) else noticed_s
    arrivals = np.arange(start_s, end_s, 1.0 / experiment.load.sent_per_s)
    for index, at_s in enumerate(arrivals):
        is_lost = began_s <= at_s < lost_until_s and index % LOST_EVERY == 0
        is_refused = reset_s[0] <= at_s < reset_s[1]
        slow = is_first_arm and noticed_s <= at_s < ended_s + SLOW_AFTER_S
        took_ms = TIME_OUT_MS if is_lost else (SLOW_MS if slow else QUICK_MS) * rng.normal(1.0, 0.1)
        outcome = "connection_error" if is_refused else "time_out" if is_lost else "ok"
        phase = "warm-up" if at_s < start_s + warm_s else "measure"
        rows.append({
            "arm": block.arm, "repeat": block.repeat, "pair": block.pair, "phase": phase,
            "index": index, "user": experiment.load.user, "name": "read",
            "intended_s": at_s, "sent_s": at_s, "done_s": at_s + took_ms / 1e3,
            "latency_ms": took_ms, "lag_ms": 0.05, "outcome": outcome,
            "status": 0, "bytes": 50_000 if outcome == "ok" else 0,
        })  # fmt: skip
    for at_s in np.arange(start_s, end_s, 0.5) if design.fleet.arbiters else ():
        alive = not noticed_s <= at_s < ended_s
        server = {"server": fault_spec.select.machine, "alive": alive}
        polls.append({**dict.fromkeys(ARBITERS.names()), "time_s": float(at_s), **server})
