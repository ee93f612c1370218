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
    """Return the number that took effect; "" where nothing was injected."""
    total = {name: sum(row["answers"][name] for row in rows) for name in ANSWERS}
    if not sum(total.values()):
        return ""
    if total[UNMEASURED] == sum(total.values()):
        return "Dose: not measured"
    every = f"{number(sum(total.values()))} faults and neighbours"
    said = [f"{number(total[BIT])} of {every} {_WORDS[BIT]}"]
    said += [f"{number(total[name])} {_WORDS[name]}" for name in ANSWERS[1:] if total[name]]
    return f"Dose: {', '.join(said)}"


def dose_table(rows: Rows) -> Table | None:
    """Asked against measured, of each kind and machine; what had no effect first."""
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
    """Return the measure of each kind."""
    how = {row["kind"]: row["how"] for row in rows if row["how"]}
    return [f"{kind}: {text}." for kind, text in how.items()]


def _value(value: float | None, row: Mapping[str, Any]) -> str:
    return MISSING if value is None else f"{number(value)} {row['unit']}"


def _share(row: Mapping[str, Any]) -> str:
    known = row["asked"] and row["measured"] is not None
    return percent(row["measured"] / row["asked"], 2) if known else MISSING


def _answers(row: Mapping[str, Any]) -> Cell:
    """Return the worst first; counts where there are several."""
    given = {name: row["answers"][name] for name in ANSWERS if row["answers"][name]}
    worst = next(name for name in (MISSED, BIT, INSUFFICIENT, UNMEASURED) if name in given)
    several = sum(given.values()) > 1
    said = ", ".join(f"{number(count)} {_WORDS[name]}" if several else _WORDS[name]
                     for name, count in given.items())  # fmt: skip
    why = row.get("problem") if worst in (MISSED, INSUFFICIENT) else None
    return Cell(said, numeric=False, mood=_MOODS[worst], about=why or "")
