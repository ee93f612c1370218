"""The tables of a fail-over run, on the page and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from core.units import YEAR_S
from experiments.kinds.failover.client import PARTS
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, counted, milliseconds, number, percent, usd

Rows = Sequence[Mapping[str, Any]]


def summary_table(rows: Rows, bound_s: float) -> Table:
    table_rows = []
    for row in rows:
        quantiles, doubtful = row["quantiles_ms"], row["insufficient"]
        table_rows.append((
            named(row["fault"]), _strategy(row),
            Cell(f"{row['failovers']:,} of {row['strikes']:,}"),
            *(Cell(milliseconds(quantiles[key]), key in doubtful) for key in ("50", "90")),
            Cell(milliseconds(row["max_ms"]), about=_covered_text(row)),
            Cell(_by_block(row)),
            Cell(milliseconds(row["jitter_ms"])),
            _beyond_cell(row), Cell(f"{number(row['lost'])} of {number(row['invocations'])}"),
        ))  # fmt: skip
    head = ("fault", "strategy", "fail-overs", "p50", "p90", "longest", "p50 by block", "jitter",
            f"beyond {bound_s:g} s", "calls lost")  # fmt: skip
    return Table("summary", "How long a call took whose server was struck", head, tuple(table_rows))


def matrix_tables(rows: Rows) -> list[Table]:
    """Return a table for each number of clients, with a row per fault and a column per strategy; or
    the other way round if there are more strategies than faults."""
    return [
        _matrix(clients, [row for row in rows if row["clients"] == clients])
        for clients in dict.fromkeys(row["clients"] for row in rows)
    ]


def _matrix(clients: int, rows: Rows) -> Table:
    arms = tuple(dict.fromkeys(row["arm"] for row in rows))
    faults = tuple(dict.fromkeys(row["fault"] for row in rows))
    rows_by_key = {(row["fault"], row["arm"]): row for row in rows}
    caption = f"Strategy by fault, {counted(clients, 'client')}: fail-over median, longest"
    cells = {key: _outcome_cell(rows_by_key.get(key)) for key in product(faults, arms)}
    if len(arms) > len(faults):
        head: tuple[str, ...] = ("strategy", *faults)
        body = [(named(arm), *(cells[fault, arm] for fault in faults)) for arm in arms]
    else:
        head = ("fault", *arms)
        body = [(named(fault), *(cells[fault, arm] for arm in arms)) for fault in faults]
    return Table(f"matrix-{clients}", caption, head, tuple(body))


def _outcome_cell(row: Mapping[str, Any] | None) -> Cell:
    """Return the cell of a strategy under a fault; its mood is bad if a call was lost or wrong."""
    if row is None:
        return Cell(MISSING)
    times = f"{milliseconds(row['quantiles_ms']['50'])}, {milliseconds(row['max_ms'])}"
    counts = {"lost": row["lost"], "sent again": row["repeated"], "wrong": row["wrong"]}
    about = [
        f"{row['failovers']:,} of {row['strikes']:,}",
        *(f"{number(count)} {problem}" for problem, count in counts.items() if count),
        f"call {milliseconds(row['longest_call_ms'])}",
    ]
    mood = "bad" if row["lost"] or row["wrong"] else ""
    if not row["failovers"]:
        return Cell("no fail-over", mood=mood, about="; ".join(about))
    return Cell(times, "50" in row["insufficient"], mood=mood, about="; ".join(about))


def calls_table(rows: Rows) -> Table | None:
    """Return the invocations and their audits; None for a run without audits."""
    audited_rows = [row for row in rows if row["audit"] is not None]
    if not audited_rows:
        return None
    table_rows = []
    for row in audited_rows:
        audit, methods = row["audit"], row["methods"]
        about = "; ".join(f"{name} {number(count)}" for name, count in methods.items())
        faults = {key: count for key, count in audit.items() if key != "changes"}
        table_rows.append((
            named(row["fault"]), _strategy(row),
            Cell(f"{number(row['invocations'])} of {len(methods)}", about=about),
            Cell(number(row["lost"]), mood="bad" if row["lost"] else ""),
            Cell(number(row["wrong"]), mood="bad" if row["wrong"] else ""),
            Cell(number(audit["changes"])),
            *(Cell(number(count), mood="bad" if count else "") for count in faults.values()),
        ))  # fmt: skip
    names = [key for key in audited_rows[0]["audit"] if key != "changes"]
    head = ("fault", "strategy", "calls, methods", "lost", "wrong replies", "changes told", *names)
    return Table(
        "calls", "What was called, and what the service kept of it", head, tuple(table_rows)
    )


def bought_table(rows: Rows, availability: float) -> Table:
    rated_rows = [row for row in rows if row["bought"] is not None]
    head = ("fault", "strategy", "CrashRecovery", "PoolRepair", "availability", "down a year",
            "USD a month", f"servers for {availability:.9g}", "USD a month with them")  # fmt: skip
    caption = "What a strategy buys, in nines and in USD"
    return Table("bought", caption, head, tuple(_gain_cells(row) for row in rated_rows))


def _gain_cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    gain = row["bought"]
    label = (named(row["fault"]), _strategy(row))
    if gain["reason"] is not None:
        about = f"{gain['failovers']} fail-overs, {gain['repairs']} repairs"
        return (*label, Cell(gain["reason"], about=about), *(Cell(MISSING) for _ in range(6)))
    least = f"at least {_nines(gain['unavailability_most'])}"
    servers = "none suffices" if gain["servers"] is None else str(gain["servers"])
    return (
        *label,
        Cell(milliseconds(1e3 * gain["crash_recovery_s"]), about=f"mean of {gain['failovers']}"),
        Cell(f"{gain['pool_repair_s']:.2f} s", about=f"mean of {gain['repairs']}"),
        Cell(_nines(gain["unavailability"]), about=least),
        Cell(f"{gain['unavailability'] * YEAR_S:.2f} s"),
        Cell(usd(gain["usd_per_month"])),
        Cell(servers), Cell(usd(gain["usd_per_month_sized"])),
    )  # fmt: skip


def _nines(unavailability: float) -> str:
    """Return -log10 of the unavailability: 3 for an availability of 0.999."""
    return f"{-math.log10(unavailability):.2f} nines"


def rates_table(rates: Mapping[str, Mapping[str, Any]], prices: Mapping[str, str]) -> Table:
    table_rows = [
        (named(fault), Cell(f"{rate['per_year']:g} a server and year"), named(rate["source"]))
        for fault, rate in rates.items()
    ]
    table_rows.append((named("prices"), Cell(prices["as_of"]), named(prices["source"])))
    return Table("rates", "What this rests on", ("of", "figure", "source"), tuple(table_rows))


def _strategy(row: Mapping[str, Any]) -> Cell:
    text = f"{row['arm']}, {counted(row['clients'], 'client')}"
    return Cell(text, numeric=False, about=f"undisturbed {milliseconds(row['undisturbed_ms'])}")


def _by_block(row: Mapping[str, Any]) -> str:
    medians_ms = [median_ms for median_ms in row["medians_ms"] if median_ms is not None]
    if len(medians_ms) < 2:
        return MISSING
    return f"{milliseconds(min(medians_ms))} to {milliseconds(max(medians_ms))}"


def _covered_text(row: Mapping[str, Any]) -> str:
    covered = row["covered"]
    return "" if covered is None else f"bounds {percent(covered)} of all"


def _beyond_cell(row: Mapping[str, Any]) -> Cell:
    most = row["beyond_share_most"]
    if most is None:
        return Cell(MISSING)
    beyond_text = f"{row['beyond']:,} of {row['failovers']:,}"
    mood = "bad" if row["beyond"] else "good"
    return Cell(beyond_text, mood=mood, about=f"at most {percent(most)} of all")


def parts_table(rows: Rows) -> Table:
    table_rows = tuple(
        (
            named(row["fault"]), _strategy(row),
            *(_part(row, part) for part in PARTS),
            *(Cell(_seconds(time_s)) for time_s in row["server_side_s"].values()),
        )
        for row in rows
    )  # fmt: skip
    server_side = next(iter(rows))["server_side_s"] if rows else {}
    head = ("fault", "strategy", "detection", "waiting", "naming", "lock", "connecting",
            "call again", *server_side)  # fmt: skip
    caption = "Parts of a fail-over at the client, and when the server side did its own; means"
    return Table("parts", caption, head, table_rows)


def _part(row: Mapping[str, Any], part: str) -> Cell:
    """Return the mean of a part; the lock, for which the paper's clients waited, has its longest
    wait too."""

    longest = f"longest {milliseconds(row['lock_ms_max'])}" if part == "lock" else ""
    return Cell(milliseconds(row["parts_ms"][part]), about=longest)


def _seconds(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f} s"
