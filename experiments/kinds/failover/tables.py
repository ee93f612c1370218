"""The tables of a fail-over run, on the page and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.failover.analysis import PARTS
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, counted, milliseconds, number, percent

Rows = Sequence[Mapping[str, Any]]


def summary_table(rows: Rows, bound_s: float) -> Table:
    """Strategy by fault."""
    shown = []
    for row in rows:
        quantiles, doubtful = row["quantiles_ms"], row["insufficient"]
        shown.append((
            named(row["fault"]), _strategy(row),
            Cell(f"{row['failovers']} of {row['strikes']}"),
            *(Cell(milliseconds(quantiles[key]), key in doubtful) for key in ("50", "90")),
            Cell(milliseconds(row["max_ms"]), about=_covered(row)),
            Cell(milliseconds(row["jitter_ms"])),
            _within(row), Cell(f"{row['lost']} of {number(row['invocations'])}"),
        ))  # fmt: skip
    head = ("fault", "strategy", "fail-overs", "p50", "p90", "longest", "jitter",
            f"beyond {bound_s:g} s", "calls lost")  # fmt: skip
    return Table("summary", "How long a call took whose server was struck", head, tuple(shown))


def _strategy(row: Mapping[str, Any]) -> Cell:
    text = f"{row['arm']}, {counted(row['clients'], 'client')}"
    return Cell(text, numeric=False, about=f"undisturbed {milliseconds(row['undisturbed_ms'])}")


def _covered(row: Mapping[str, Any]) -> str:
    covered = row["covered"]
    return "" if covered is None else f"bounds {percent(covered)} of all"


def _within(row: Mapping[str, Any]) -> Cell:
    most = row["beyond_share_most"]
    if most is None:
        return Cell(MISSING)
    said = f"{row['beyond']} of {row['failovers']}"
    mood = "bad" if row["beyond"] else "good"
    return Cell(said, mood=mood, about=f"at most {percent(most)} of all")


def parts_table(rows: Rows) -> Table:
    """Where the time of a fail-over went, on average."""
    shown = tuple(
        (
            named(row["fault"]), _strategy(row),
            *(Cell(milliseconds(row["parts_ms"][part])) for part in PARTS),
            *(Cell(_seconds(when)) for when in row["server_side_s"].values()),
        )
        for row in rows
    )  # fmt: skip
    server_side = next(iter(rows))["server_side_s"] if rows else {}
    head = ("fault", "strategy", "detection", "waiting", "naming", "lock", "connecting",
            "call again", *server_side)  # fmt: skip
    caption = "Parts of a fail-over at the client, and when the server side did its own; means"
    return Table("parts", caption, head, shown)


def _seconds(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f} s"
