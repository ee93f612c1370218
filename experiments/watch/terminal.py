"""A snapshot on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from experiments.report.text import MISSING, number
from experiments.watch.snapshot import Snapshot

_FEW_BEYOND = 10  # requests beyond a percentile, or it is a guess
_FIGURES = ("mean", "p50", "p90", "p95", "p99", "max")
_NARROW, _NARROW_COLUMNS = ("p50", "p95", "p99"), 90
_BEYOND = {"p95": 0.05, "p99": 0.01}
_COLOURS = {"burns": "bold red", "begins to burn": "yellow", "has burnt": "yellow"}


def shown(snapshot: Snapshot, width: int) -> RenderableType:
    """Return the whole of it, for a terminal so wide."""
    narrow = width < _NARROW_COLUMNS
    return Group(
        _head(snapshot), Text(), _latency(snapshot, narrow), _burn(snapshot), *_rest(snapshot)
    )


def _clock(ms: float) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S}"


def _head(snapshot: Snapshot) -> Text:
    head = Text.assemble((snapshot["experiment"], "bold"), f"  run {snapshot['run']}  ")
    if snapshot["live"]:
        now = ", ".join(part for part in (snapshot["arm"], snapshot["phase"]) if part)
        return head.append(f"live {_clock(snapshot['to_ms'])} UTC  {now}", "green")
    return head.append(f"over since {_clock(snapshot['to_ms'])} UTC", "dim")


def _latency(snapshot: Snapshot, narrow: bool) -> Table:
    slo = snapshot["slo"]
    names = _NARROW if narrow else _FIGURES
    heads = [f"{name} ≤ {slo[name]:g}" if name in slo else name for name in names]
    table = _table("Latency, ms, warm-up left out", "arm", "requests", "failed", *heads)
    for one in snapshot["arms"]:
        table.add_row(one["arm"], *_figures(one, slo, names))
        if one["last_minute"]:
            cells = _figures(one["last_minute"], slo, names)
            table.add_row("  last minute", *cells, style="dim")
    return table


def _figures(
    row: Mapping[str, Any], slo: Mapping[str, float], names: Sequence[str]
) -> Iterator[Text]:
    yield Text(f"{row['requests']:,}")
    yield Text(f"{row['failed']:,}", "red" if row["failed"] else "")
    for name in names:
        value, limit = row.get(name), slo.get(name)
        few = row["requests"] * _BEYOND.get(name, 1.0) < _FEW_BEYOND
        over = limit is not None and value is not None and value > limit
        colour = "" if limit is None else "bold red" if over else "green"
        yield Text(number(value) + (" ?" if few and value is not None else ""), colour)


def _burn(snapshot: Snapshot) -> Table:
    limits = list(dict.fromkeys(limit for one in snapshot["arms"] for limit in one["burn"]))
    title = "Burn rate in the last 1 / 5 minutes: 1 is just what the SLO allows"
    table = _table(title, "arm", *limits)
    for one in snapshot["arms"]:
        table.add_row(one["arm"], *(_rate(one["burn"].get(limit)) for limit in limits))
    return table


def _rate(burn: Mapping[str, Any] | None) -> Text:
    if not burn or not burn["said"]:
        return Text(MISSING)
    text = f"{number(burn['1 min'])} / {number(burn['5 min'])} {burn['said']}"
    return Text(text, _COLOURS.get(burn["said"], "green"))


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _rest(snapshot: Snapshot) -> Iterator[Text]:
    """Faults, cost, extra work, verdicts: a line each; what is now, only while there is a now."""
    if snapshot["live"]:
        faults = [
            f"{one['title']} for {(snapshot['to_ms'] - one['start_ms']) / 1000:.0f} s"
            for one in snapshot["faults"]
        ]
        yield Text.assemble(("Active  ", "bold"), ", ".join(faults) or "no fault, no neighbour")
    if snapshot["failures"]:
        failed = ", ".join(f"{count:,} {name}" for name, count in snapshot["failures"].items())
        yield Text.assemble(("Failed  ", "bold"), failed)
    if (usd := snapshot["usd_per_hour"]) is not None:
        dear = [
            f"{one['arm']} {number(one['usd_per_million'])}"
            for one in snapshot["arms"]
            if one["usd_per_million"] is not None
        ]
        text = f"{number(usd)} an hour; per million good requests: {', '.join(dear) or MISSING}"
        yield Text.assemble(("USD     ", "bold"), text)
    if snapshot["live"] and (extra := snapshot["extra_work_percent"]):
        copies = [f"{tier} {number(value)} %" for tier, value in extra.items()]
        yield Text.assemble(("Copies  ", "bold"), f"beyond the first, now: {', '.join(copies)}")
    for verdict in snapshot["verdicts"].values():
        yield Text.assemble(("Verdict ", "bold"), verdict["title"])
