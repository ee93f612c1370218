"""A snapshot on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.units import duration
from experiments.report.text import MISSING, number
from experiments.watch.snapshot import Snapshot

_FEW_BEYOND = 10  # requests beyond a percentile, or it is a guess
_DOUBT = " ?"
# Not as the tables' titles, which would be folded to their width.
_LATENCY = "Latency, ms, warm-up left out"
_BURN = "Burn rate in the last 1 / 5 minutes: 1 is just what the SLO allows"
_FIGURES = ("mean", "p50", "p90", "p95", "p99", "max")
_NARROW, _NARROW_COLUMNS = ("p50", "p95", "p99"), 90
_BEYOND = {"p95": 0.05, "p99": 0.01}
_COLOURS = {"burns": "bold red", "begins to burn": "yellow", "has burnt": "yellow"}


def render(snapshot: Snapshot, width: int) -> RenderableType:
    """Return the whole snapshot for a terminal of `width` columns."""
    narrow = width < _NARROW_COLUMNS
    latency = _latency(snapshot, narrow)
    parts: list[RenderableType] = [_head(snapshot), Text(), Text(_LATENCY, "italic"), latency]
    parts += [*_footnote(latency), Text(), Text(_BURN, "italic"), _burn(snapshot)]
    return Group(*parts, *_footer(snapshot))


def _footnote(latency: Table) -> Iterator[Text]:
    """Yield the meaning of the question mark, where there is one."""
    if any(_DOUBT in str(cell) for column in latency.columns for cell in column.cells):
        few = f"{_DOUBT.strip()}: a guess, from fewer than {_FEW_BEYOND} requests beyond it"
        yield Text(few, style="dim")


def _time_text(ms: float, shape: str = "%H:%M:%S") -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):{shape}} UTC"


def _head(snapshot: Snapshot) -> Text:
    head = Text.assemble((snapshot["experiment"], "bold"), f"  run {snapshot['run']}  ")
    if snapshot["live"]:
        now = ", ".join(part for part in (snapshot["arm"], snapshot["phase"]) if part)
        return head.append(f"live {_time_text(snapshot['to_ms'])}  {now}", "green")
    return head.append(f"over since {_time_text(snapshot['to_ms'], '%Y-%m-%d %H:%M:%S')}", "dim")


def _latency(snapshot: Snapshot, narrow: bool) -> Table:
    slo = snapshot["slo"]
    names = _NARROW if narrow else _FIGURES
    heads = [f"{name} ≤ {slo[name]:g}" if name in slo else name for name in names]
    table = _table("arm", "requests", "failed", *heads)
    for arm in snapshot["arms"]:
        table.add_row(arm["arm"], *_figures(arm, slo, names))
        if arm["last_minute"]:
            cells = _figures(arm["last_minute"], slo, names)
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
        yield Text(number(value) + (_DOUBT if few and value is not None else ""), colour)


def _burn(snapshot: Snapshot) -> Table:
    limits = list(dict.fromkeys(limit for arm in snapshot["arms"] for limit in arm["burn"]))
    table = _table("arm", *limits)
    for arm in snapshot["arms"]:
        table.add_row(arm["arm"], *(_rate(arm["burn"].get(limit)) for limit in limits))
    return table


def _rate(burn: Mapping[str, Any] | None) -> Text:
    if not burn or not burn["said"]:
        return Text(MISSING)
    text = f"{number(burn['1 min'])} / {number(burn['5 min'])} {burn['said']}"
    return Text(text, _COLOURS.get(burn["said"], "green"))


def _table(first: str, *columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _footer(snapshot: Snapshot) -> Iterator[Text]:
    """Yield a line each for faults, failures, cost, extra work and verdicts; faults and extra work
    only of a live run, because they are of this moment."""
    if snapshot["live"]:
        faults = [
            f"{fault['title']} for {duration((snapshot['to_ms'] - fault['start_ms']) // 1000)}"
            for fault in snapshot["faults"]
        ]
        yield Text.assemble(("Active  ", "bold"), ", ".join(faults) or "no fault, no neighbour")
    if snapshot["failures"]:
        failures = snapshot["failures"].items()
        failed = [f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in failures]
        yield Text.assemble(("Failed  ", "bold"), ", ".join(failed))
    if (usd := snapshot["usd_per_hour"]) is not None:
        costs = [
            f"{arm['arm']} {number(arm['usd_per_million'])}"
            for arm in snapshot["arms"]
            if arm["usd_per_million"] is not None
        ]
        text = f"{number(usd)} an hour; per million good requests: {', '.join(costs) or MISSING}"
        yield Text.assemble(("USD     ", "bold"), text)
    if snapshot["live"] and (extra := snapshot["extra_work_percent"]):
        copies = [f"{tier} {number(value)} %" for tier, value in extra.items()]
        yield Text.assemble(("Copies  ", "bold"), f"beyond the first, now: {', '.join(copies)}")
    for verdict in snapshot["verdicts"].values():
        yield Text.assemble(("Verdict ", "bold"), verdict["title"])
