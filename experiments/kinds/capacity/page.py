"""The page of a capacity run, and its summary on a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.capacity.figures import cpu_figure, latency_figure
from experiments.record.result import flat
from experiments.report.shell import render_run, save_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_path, print_reasons, print_table
from experiments.report.text import interval, milliseconds, number, percent, plain


def write_page(folder: Path) -> Path:
    return save_page(folder, capacity_page(flat(read_result(folder)), manifest_if_any(folder)))


def capacity_page(capacity: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Return the page as HTML; `capacity` is the result, head and body in one."""
    caps = _caps(manifest)
    machine = capacity["machine"]
    return render_run(
        Path(__file__).with_name("capacity.html.j2"),
        capacity,
        manifest,
        headline(capacity),
        {"measurement": "NodT of every workload?", "cleanup": "Cleaned up?"},
        about=f"{machine['role']}, {machine['cpus']:g} CPU, {machine['memory_mb']} MB, "
        f"{machine['nic_mbps']:g} Mbit/s",
        summary=_summary_table(capacity),
        workloads=[
            {
                "user": user,
                "latency": latency_figure(user, workload),
                "cpu": cpu_figure(user, workload, caps),
                "steps": _step_table(user, workload),
                "notes": [text for text in (workload["reason"], *workload["doubts"]) if text],
            }
            for user, workload in capacity["workloads"].items()
        ],
    )


def headline(capacity: Mapping[str, Any]) -> str:
    """Return the node's capacity: one sentence per workload, or one for all if there are arms."""
    if _has_arms(capacity):
        nodts = {user: workload["nodt_per_s"] for user, workload in capacity["workloads"].items()}
        texts = [
            f"{user} {number(nodt['value']) if nodt else 'not found'}"
            for user, nodt in nodts.items()
        ]
        return f"Requests/s that one node carries: {', '.join(texts)}."
    return " ".join(
        _nodt_sentence(user, workload) for user, workload in capacity["workloads"].items()
    )


def _nodt_sentence(user: str, workload: Mapping[str, Any]) -> str:
    nodt = workload["nodt_per_s"]
    if nodt is None:
        return f"{user}: no NodT, {workload['reason']}."
    bounds = interval(nodt["low"], nodt["high"], number)
    return (
        f"{user}: one node carries {number(nodt['value'])} requests/s with p95 within "
        f"{plain(workload['limit_ms'])} ms (95 % interval {bounds}, {workload['sweeps']} sweeps)."
    )


def print_result(capacity: Mapping[str, Any], console: Console, report: Path) -> None:
    table = _summary_table(capacity)
    title = f"{capacity['experiment']}, run {capacity['run']}"
    print_table(dataclasses.replace(table, caption=title), console)
    for user, workload in capacity["workloads"].items():
        for text in workload["doubts"]:
            console.print(f"  - {user}: {text}", highlight=False)
    print_reasons(capacity["verdicts"], console)
    print_path(report, console)


_HEAD = ("workload", "limit of p95", "NodT", "95 %", "knee", "CPU of a request", "CPU at NodT")
_AGAINST = ("of the first arm's NodT", "of its CPU, at the same rates")


def _summary_table(capacity: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    has_arms = _has_arms(capacity)
    for user, workload in capacity["workloads"].items():
        nodt, knee, cost = workload["nodt_per_s"], workload["knee_per_s"], workload["processing_s"]
        first = workload.get("against") or {}
        texts = (
            f"{plain(workload['limit_ms'])} ms",
            f"{number(nodt['value'])}/s" if nodt else "none",
            interval(nodt["low"], nodt["high"], number) if nodt else "",
            f"{number(knee['value'])}/s" if knee else "",
            milliseconds(cost["value"] * 1e3) if cost else "",
            percent(workload["utilisation"]) if workload["utilisation"] is not None else "",
            *((_share(first), _share(first.get("cpu"))) if has_arms else ()),
        )
        rows.append((named(user), *map(Cell, texts)))
    head = (*_HEAD, *_AGAINST) if has_arms else _HEAD
    return Table("capacity-table", "What one node carries", head, tuple(rows))


def _has_arms(capacity: Mapping[str, Any]) -> bool:
    return any(workload.get("against") for workload in capacity["workloads"].values())


def _share(against: Mapping[str, Any] | None) -> str:
    if not against or against.get("value") is None:
        return ""
    return f"{percent(against['value'])} ({interval(against['low'], against['high'], percent)})"


def _step_table(user: str, workload: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (
            named(f"{plain(step['rate_per_s'])}/s, sweep {step['sweep'] + 1}"
                  + (f", try {step['attempt']}" if step["attempt"] > 1 else "")),
            Cell(number(step["requests"])), Cell(number(step["answered_per_s"])),
            *(Cell(milliseconds(step[name]), name in step["insufficient"])
              for name in ("p50_ms", "p95_ms", "p99_ms")),
            Cell(percent(step["error_share"])),
            Cell(milliseconds(step["lag_p99_ms"])),
        )
        for step in workload["steps"]
    )  # fmt: skip
    head = ("asked for", "requests", "answers/s", "p50", "p95", "p99", "without a good answer",
            "sent late, p99")  # fmt: skip
    return Table(f"{user}-steps", f"{user}: every step", head, rows) if rows else None


def _caps(manifest: Mapping[str, Any]) -> dict[str, float]:
    tiers = ((manifest.get("spec") or {}).get("fleet") or {}).get("tiers") or {}
    return {f"{name}-{n}": float(tier["cpus"])
            for name, tier in tiers.items() for n in range(1, tier["nodes"] + 1)}  # fmt: skip
