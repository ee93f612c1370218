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
    """Shares of outcomes, a row for each program and variant."""
    shown = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(row["injections"])),
            *(_share(row, outcome) for outcome in OUTCOMES),
        )
        for row in rows
    )  # fmt: skip
    return Table(identity, caption, ("program", "variant", "injections", *OUTCOMES), shown)


def _share(row: Mapping[str, Any], outcome: str) -> Cell:
    return Cell(percent(row["shares"][outcome]), about=bounds(row["intervals"][outcome]))


def bounds(of: Sequence[float]) -> str:
    """Return an interval of a share."""
    low, high = of
    return interval(low, high, percent)


def paper_table(result: Mapping[str, Any]) -> Table:
    """PCRAFT's Table I and ours, a row for each variant and probability."""
    shown = []
    for variant, found in result["outcomes_for_planner"].items():
        paper = TABLE_I.get(variant, {})
        for name, one in found.items():
            shown.append((
                named(variant), named(name), Cell(percent(paper.get(name))),
                Cell(percent(one["p"]), about=bounds(one["interval"])),
            ))  # fmt: skip
        speed = speed_of(result["price"], variant)
        shown.append((
            named(variant), named("speed, of native"), Cell(percent(SPEED.get(variant))),
            Cell(percent(speed)),
        ))  # fmt: skip
    head = ("variant", "what", "PCRAFT Table I", "here")
    return Table("paper", "Beside the paper's", head, tuple(shown))


def price_table(price: Rows) -> Table:
    """CPU time of each variant as it is used."""
    shown = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(f"{number(row['cpu_s'])} s"),
            Cell(factor(row["ratio"]), about=_range(row)),
        )
        for row in price
    )  # fmt: skip
    return Table("price", "CPU time, of native's", ("program", "variant", "median", "ratio"), shown)


def rate_table(price: Rows) -> Table | None:
    """Requests of services; None if there are only kernels."""
    shown = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(row["repeats"])),
            *(_rate(row[name]) for name in ("requests_per_cpu_s", "requests_per_s")),
        )
        for row in price
        if row.get("requests_per_s")
    )  # fmt: skip
    head = ("service", "variant", "repeats", "requests per second of CPU", "per second")
    return Table("rates", "Requests of services", head, shown) if shown else None


_ABORTS = ("conflict", "capacity", "difference", "other")


def transactions_table(price: Rows) -> Table | None:
    """Hardware transactions and why they were aborted; None if no program had any."""
    shown = tuple(
        (
            named(row["program"]), named(row["variant"]), Cell(number(of["begun"])),
            *(Cell(_of_a_million(of[name], of["begun"])) for name in _ABORTS),
        )
        for row in price
        if (of := row.get("transactions"))
    )  # fmt: skip
    head = ("program", "variant", "begun", *_ABORTS)
    caption = "Hardware transactions, aborts of a million"
    return Table("transactions", caption, head, shown) if shown else None


def _of_a_million(count: int, of: int) -> str:
    return f"{1e6 * count / of:.3g}" if of else MISSING


def _rate(of: Sequence[float]) -> Cell:
    low, middle, high = of
    return Cell(number(round(middle)), about=f"{number(round(low))} to {number(round(high))}")


_FAULTS = {
    "wrong": "another answer", "lost": "a key that is there was not found",
    "refused": "the arbiter: replies differ", "error": "an error",
    "closed": "the connection was closed", "hang": "no answer",
}  # fmt: skip


def answers_table(answers: Rows) -> Table | None:
    """Wrong answers of services; None where all were right, or no service ran."""
    shown = tuple(
        (
            named(row["program"]), named(row["variant"]), named(_FAULTS[row["fault"]]),
            named(row["phase"]), Cell(number(row["count"])),
        )
        for row in answers
    )  # fmt: skip
    head = ("service", "variant", "instead of the right answer", "when", "injections")
    return Table("answers", "What services answered", head, shown) if shown else None


def _range(row: Mapping[str, Any]) -> str:
    return interval(row["ratio_low"], row["ratio_high"]) if row["ratio"] else ""


def silent_table(variant: str, origins: Rows) -> Table | None:
    """Return the origins at which the silent corruptions of a variant began."""
    if not origins:
        return None
    shown = tuple(
        (
            named(f"{one['program']}, {one['function']}"),
            Cell(str(one["line"]) if one["line"] else MISSING), named(one["stream"]),
            named(one["opcode"]), Cell(number(one["count"])),
        )
        for one in origins
    )  # fmt: skip
    head = ("function", "line", "stream", "instruction", "silent")
    return Table(f"silent-{variant}", f"{variant}: where silent corruptions began", head, shown)
