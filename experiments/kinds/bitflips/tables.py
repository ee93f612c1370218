"""The tables of a bit-flips run, on the page and on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.bitflips.analysis import speed_of
from experiments.kinds.bitflips.inject import OUTCOMES
from experiments.kinds.bitflips.paper import SPEED, TABLE_I
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, factor, interval, number, percent

Rows = Sequence[Mapping[str, Any]]


def outcome_table(identity: str, caption: str, rows: Rows) -> Table:
    table_rows = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(row["injections"])),
            *(_share(row, outcome) for outcome in OUTCOMES),
        )
        for row in rows
    )  # fmt: skip
    return Table(identity, caption, ("program", "variant", "injections", *OUTCOMES), table_rows)


def _share(row: Mapping[str, Any], outcome: str) -> Cell:
    return Cell(percent(row["shares"][outcome]), about=bounds(row["intervals"][outcome]))


def bounds(ends: Sequence[float]) -> str:
    low, high = ends
    return interval(low, high, percent)


def paper_table(result: Mapping[str, Any]) -> Table:
    """PCRAFT's Table I and ours, a row for each variant and probability."""
    table_rows = []
    for variant, outcomes in result["outcomes_for_planner"].items():
        paper = TABLE_I.get(variant, {})
        for name, outcome in outcomes.items():
            table_rows.append((
                named(variant), named(name), Cell(percent(paper.get(name))),
                Cell(percent(outcome["p"]), about=bounds(outcome["interval"])),
            ))  # fmt: skip
        speed = speed_of(result["price"], variant)
        table_rows.append((
            named(variant), named("speed, of native"), Cell(percent(SPEED.get(variant))),
            Cell(percent(speed)),
        ))  # fmt: skip
    head = ("variant", "what", "PCRAFT Table I", "here")
    return Table("paper", "Beside the paper's", head, tuple(table_rows))


def price_table(price: Rows) -> Table:
    table_rows = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(f"{number(row['cpu_s'])} s"),
            Cell(factor(row["ratio"]), about=_range(row)),
        )
        for row in price
    )  # fmt: skip
    return Table(
        "price", "CPU time, of native's", ("program", "variant", "median", "ratio"), table_rows
    )


def rate_table(price: Rows) -> Table | None:
    """Requests of services; None if there are only kernels."""
    table_rows = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(row["repeats"])),
            *(_rate(row[name]) for name in ("requests_per_cpu_s", "requests_per_s")),
        )
        for row in price
        if row.get("requests_per_s")
    )  # fmt: skip
    head = ("service", "variant", "repeats", "requests per second of CPU", "per second")
    return Table("rates", "Requests of services", head, table_rows) if table_rows else None


_ABORTS = ("conflict", "capacity", "difference", "other")


def transactions_table(price: Rows) -> Table | None:
    """Hardware transactions and why they were aborted; None if no program had any."""
    table_rows = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(counts["begun"])),
            *(Cell(_per_million(counts[name], counts["begun"])) for name in _ABORTS),
        )
        for row in price
        if (counts := row.get("transactions"))
    )  # fmt: skip
    head = ("program", "variant", "begun", *_ABORTS)
    caption = "Hardware transactions, aborts of a million"
    return Table("transactions", caption, head, table_rows) if table_rows else None


def _per_million(count: int, total: int) -> str:
    return f"{1e6 * count / total:.3g}" if total else MISSING


def _rate(rates: Sequence[float]) -> Cell:
    low, middle, high = rates
    return Cell(number(round(middle)), about=f"{number(round(low))} to {number(round(high))}")


_FAULTS = {
    "wrong": "another answer", "lost": "a key that is there was not found",
    "refused": "the arbiter: replies differ", "error": "an error",
    "closed": "the connection was closed", "hang": "no answer",
}  # fmt: skip


def answers_table(answers: Rows) -> Table | None:
    """Wrong answers of services; None if all were right, or no service ran."""
    table_rows = tuple(
        (
            named(row["program"]), named(row["variant"]), named(_FAULTS[row["fault"]]),
            named(row["phase"]), Cell(number(row["count"])),
        )
        for row in answers
    )  # fmt: skip
    head = ("service", "variant", "instead of the right answer", "when", "injections")
    return Table("answers", "What services answered", head, table_rows) if table_rows else None


def _range(row: Mapping[str, Any]) -> str:
    return interval(row["ratio_low"], row["ratio_high"]) if row["ratio"] else ""


def silent_table(variant: str, origins: Rows) -> Table | None:
    if not origins:
        return None
    table_rows = tuple(
        (
            named(f"{origin['program']}, {origin['function']}"),
            Cell(str(origin["line"]) if origin["line"] else MISSING), named(origin["stream"]),
            named(origin["opcode"]), Cell(number(origin["count"])),
        )
        for origin in origins
    )  # fmt: skip
    head = ("function", "line", "stream", "instruction", "silent")
    return Table(
        f"silent-{variant}", f"{variant}: where silent corruptions began", head, table_rows
    )
