"""The run that report and planner are held against.

Two blocks of two arms, one fault in each; the
second is announced for longer than the run and never ended. In it too: requests that were refused,
dropped and lost, a block that was set aside, and a last line that a crash cut short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from experiments.record.records import ARBITERS, HOSTS, REQUESTS, EventLog, write_json, write_table
from experiments.tests.report_fixture import event, fake_run

_WARM_UP_S, _MEASURE_S, _FAULT_S, _BLOCK_S = 5.0, 40.0, 20.0, 49.0
_NO_LATENCY = {"sent_s": None, "done_s": None, "latency_ms": None}
_FAILED: dict[int, dict[str, Any]] = {
    40: {"outcome": "connection_error", "latency_ms": 0.03},
    50: {"outcome": "dropped", **_NO_LATENCY},
    60: {"outcome": "lost", "lag_ms": None, **_NO_LATENCY},
    70: {"outcome": "time_out", "latency_ms": 7900.0},
}


def make(folder: Path) -> None:
    """Write the run's files."""
    run = fake_run(
        rate_per_s=4.0, warm_up_s=_WARM_UP_S, measure_s=_MEASURE_S, order="AB", fault=False
    )
    lines = [line for line in run.events if line["what"] != "phase"]
    for repeat, (arm, is_closed) in enumerate((("baseline", True), ("replicated", False))):
        at_s = 5.0 + repeat * _BLOCK_S + _WARM_UP_S + _FAULT_S
        fault = {"machine": "web-2", "arm": arm, "repeat": repeat, "id": f"limp-{repeat}"}
        lines.append(event(at_s, "fault", "net.limp", "inject", duration_s=60.0, **fault))
        if is_closed:
            lines.append(event(at_s + 8.0, "fault", "net.limp", "revert", **fault))
    aside = {"machine": "web-1", "arm": "baseline", "repeat": 7}
    lines.append(event(98.5, "interference", "interference.cpu", "inject", id="aside", **aside))
    lines.append(event(99.0, "block", "baseline", "spoiled", arm="baseline", repeat=7))
    log = EventLog(folder / "events.jsonl")
    for line in sorted(lines, key=lambda entry: float(entry["time_s"])):
        log.append(line)
    log.close()
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"time_s": 99.5, "wh')
    rows = [_row(index, row) for index, row in enumerate(run.requests.iter_rows(named=True))]
    write_table(folder / "requests.parquet", pl.DataFrame(rows, schema=REQUESTS), REQUESTS)
    write_table(folder / "arbiters.parquet", run.arbiters, ARBITERS)
    write_table(folder / "hosts.parquet", run.hosts, HOSTS)
    write_json(folder / "manifest.json", run.manifest)


def _row(index: int, row: dict[str, Any]) -> dict[str, Any]:
    into_s = row["intended_s"] - 5.0 - row["repeat"] * _BLOCK_S - _WARM_UP_S - _FAULT_S
    phase = "measure" if into_s < 0 else "recovery" if into_s > 8 and not row["repeat"] else "fault"
    phase_entry = {} if row["phase"] == "warm-up" else {"phase": phase}
    return {**row, **phase_entry, **_FAILED.get(index, {})}
