"""Real effects of faults and neighbours, in a sentence and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.record.dose import ANSWERS, BIT, INSUFFICIENT, MISSED, UNMEASURED
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, number, percent

Rows = Sequence[Mapping[str, Any]]

_WORDS = {
    BIT: "took effect", MISSED: "had no effect", INSUFFICIENT: INSUFFICIENT, UNMEASURED: UNMEASURED
}  # fmt: skip
_MOODS = {BIT: "good", MISSED: "bad", INSUFFICIENT: "unknown", UNMEASURED: "unknown"}


def dose_words(rows: Rows) -> str:
    """Return how many faults and neighbours took effect; "" if nothing was injected."""
    total = {name: sum(row["answers"][name] for row in rows) for name in ANSWERS}
    if not sum(total.values()):
        return ""
    if total[UNMEASURED] == sum(total.values()):
        return "Dose: not measured"
    subject = f"{number(sum(total.values()))} faults and neighbours"
    parts = [f"{number(total[BIT])} of {subject} {_WORDS[BIT]}"]
    parts += [f"{number(total[name])} {_WORDS[name]}" for name in ANSWERS[1:] if total[name]]
    return f"Dose: {', '.join(parts)}"


def dose_table(rows: Rows) -> Table | None:
    """Return the doses of each kind and machine, asked and measured; first those without effect."""
    ordered = sorted(rows, key=lambda row: row["answers"][MISSED] == 0)
    cells = tuple(
        (
            named(row["kind"]), named(row["machine"] or MISSING),
            Cell(_value(row["asked"], row)), Cell(_value(row["measured"], row)),
            Cell(_share(row)), _answers(row),
        )
        for row in ordered
    )  # fmt: skip
    head = ("kind", "machine", "asked", "measured", "of asked", "answer")
    return Table("dose-table", "Dose: asked against measured", head, cells) if cells else None


def dose_notes(rows: Rows) -> list[str]:
    """Return for each kind how its dose is measured."""
    methods = {row["kind"]: row["how"] for row in rows if row["how"]}
    return [f"{kind}: {method}." for kind, method in methods.items()]


def _value(value: float | None, row: Mapping[str, Any]) -> str:
    return MISSING if value is None else f"{number(value)} {row['unit']}"


def _share(row: Mapping[str, Any]) -> str:
    is_known = row["asked"] and row["measured"] is not None
    return percent(row["measured"] / row["asked"], 2) if is_known else MISSING


def _answers(row: Mapping[str, Any]) -> Cell:
    """Return the answers, with counts if there are several; the worst gives the cell its mood."""
    counts = {name: row["answers"][name] for name in ANSWERS if row["answers"][name]}
    worst = next(name for name in (MISSED, BIT, INSUFFICIENT, UNMEASURED) if name in counts)
    plural = sum(counts.values()) > 1
    text = ", ".join(f"{number(count)} {_WORDS[name]}" if plural else _WORDS[name]
                     for name, count in counts.items())  # fmt: skip
    problem = row["problem"] if worst in (MISSED, INSUFFICIENT) else None
    return Cell(text, numeric=False, mood=_MOODS[worst], about=problem or "")
