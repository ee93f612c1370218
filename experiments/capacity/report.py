"""The report of a capacity run: report.html beside capacity.json, and the summary on a terminal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.capacity.figures import cpu_figure, latency_figure
from experiments.records import write_bytes
from experiments.report.page import Verdict
from experiments.report.shell import render_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_table
from experiments.report.text import command_line, interval, milliseconds, number, percent


def write_capacity_report(folder: Path) -> Path:
    """Write report.html from capacity.json and manifest.json, whole or not at all."""
    capacity = json.loads((folder / "capacity.json").read_text(encoding="utf-8"))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    path = folder / "report.html"
    write_bytes(path, capacity_page(capacity, manifest).encode())
    return path


def capacity_page(capacity: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """The page as HTML."""
    caps = _caps(manifest)
    machine = capacity["machine"]
    return render_page(
        "capacity.html.j2",
        name=capacity["experiment"],
        when=str(manifest.get("started_at") or ""),
        machine=f"{machine['role']}, {machine['cpus']:g} CPU, {machine['memory_mb']} MB, "
        f"{machine['nic_mbps']:g} Mbit/s",
        headline=headline(capacity),
        verdicts=_verdicts(capacity),
        summary=_summary_table(capacity),
        workloads=[
            {
                "user": user,
                "latency": latency_figure(user, found),
                "cpu": cpu_figure(user, found, caps),
                "steps": _step_table(user, found),
                "notes": [text for text in (found["reason"], *found["doubts"]) if text],
            }
            for user, found in capacity["workloads"].items()
        ],
        repeat=_repeat(capacity, manifest),
    )


def headline(capacity: Mapping[str, Any]) -> str:
    """What the node carries, in a sentence for each workload."""
    return " ".join(_said(user, found) for user, found in capacity["workloads"].items())


def _said(user: str, found: Mapping[str, Any]) -> str:
    nodt = found["nodt_per_s"]
    if nodt is None:
        return f"{user}: no NodT, {found['reason']}."
    bounds = interval(nodt["low"], nodt["high"], number)
    return (
        f"{user}: one node carries {number(nodt['value'])} requests/s with p95 within "
        f"{found['limit_ms']:g} ms (95 % interval {bounds}, {found['sweeps']} sweeps)."
    )


def print_capacity(capacity: Mapping[str, Any], console: Console, report: Path) -> None:
    """One line for each workload, the verdicts that failed, and the report's path."""
    table = _summary_table(capacity)
    title = f"{capacity['experiment']}, run {capacity['run']}"
    print_table(dataclasses.replace(table, caption=title), console)
    for user, found in capacity["workloads"].items():
        for text in (found["reason"], *found["doubts"]):
            if text:
                console.print(f"  - {user}: {text}", highlight=False)
    for name, verdict in capacity["verdicts"].items():
        for reason in verdict["reasons"]:
            console.print(f"  - {name}: {reason}", highlight=False)
    console.print(f"Report: {report}", soft_wrap=True, markup=False, highlight=False)


_HEAD = ("workload", "limit of p95", "NodT", "95 %", "knee", "CPU of a request", "CPU at NodT")


def _rows(capacity: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for user, found in capacity["workloads"].items():
        nodt, knee, cost = found["nodt_per_s"], found["knee_per_s"], found["processing_s"]
        rows.append((
            user,
            f"{found['limit_ms']:g} ms",
            f"{number(nodt['value'])}/s" if nodt else "none",
            interval(nodt["low"], nodt["high"], number) if nodt else "",
            f"{number(knee['value'])}/s" if knee else "",
            milliseconds(cost["value"] * 1e3) if cost else "",
            percent(found["utilisation"]) if found["utilisation"] is not None else "",
        ))  # fmt: skip
    return rows


def _summary_table(capacity: Mapping[str, Any]) -> Table:
    rows = tuple((named(row[0]), *(Cell(text) for text in row[1:])) for row in _rows(capacity))
    return Table("capacity-table", "What one node carries", _HEAD, rows)


def _step_table(user: str, found: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (
            named(f"{step['rate_per_s']:g}/s, sweep {step['sweep'] + 1}"
                  + (f", try {step['attempt']}" if step["attempt"] > 1 else "")),
            Cell(number(step["requests"])), Cell(number(step["answered_per_s"])),
            *(Cell(milliseconds(step[name]), name in step["insufficient"])
              for name in ("p50_ms", "p95_ms", "p99_ms")),
            Cell(percent(step["error_share"])),
            Cell(milliseconds(step["lag_p99_ms"])),
        )
        for step in found["steps"]
    )  # fmt: skip
    head = ("asked for", "requests", "answers/s", "p50", "p95", "p99", "without a good answer",
            "sent late, p99")  # fmt: skip
    return Table(f"{user}-steps", f"{user}: every step", head, rows) if rows else None


def _verdicts(capacity: Mapping[str, Any]) -> list[Verdict]:
    complete = capacity["complete"]
    answers = [Verdict("NodT of every workload?", *_word(complete), ())]
    for name, question in (("measurement", "Measured to the end?"), ("cleanup", "Cleaned up?")):
        found = capacity["verdicts"][name]
        answers.append(Verdict(question, *_word(found["ok"]), tuple(found["reasons"])))
    return answers


def _word(yes: bool) -> tuple[str, str]:
    return ("yes", "good") if yes else ("no", "bad")


def _caps(manifest: Mapping[str, Any]) -> dict[str, float]:
    tiers = ((manifest.get("spec") or {}).get("fleet") or {}).get("tiers") or {}
    return {f"{name}-{n}": float(tier["cpus"])
            for name, tier in tiers.items() for n in range(1, tier["nodes"] + 1)}  # fmt: skip


def _repeat(capacity: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("command", command_line(manifest.get("command"))),
        ("run", str(capacity["run"])),
        ("seed", str(manifest.get("seed"))),
        ("commit", str((manifest.get("versions") or {}).get("commit"))),
    ]
