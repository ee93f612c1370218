"""Settings that heal a row, on the page and on a terminal: gain and cost of remedies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.kinds.limplock.page.words import Found, bounds, slowed, verdict_cell
from experiments.kinds.limplock.scenarios import label
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, factor, number

_MOODS = {
    "heals": "good", "helps": "good", "saves": "good", "harms": "bad", "costs": "bad",
    "insufficient": "unknown",
}  # fmt: skip
_HEAD = (
    "row and severity", "remedy", "slowdown without", "with it", "buys", "costs", "node", "cluster",
)  # fmt: skip


def remedy_table(found: Sequence[Found]) -> Table:
    """Return a line for each row, part, remedy and severity, with bounds and the repeats
    themselves.
    """
    return Table("remedy-table", "Which setting heals it", _HEAD, tuple(map(_line, found)))


def remedy_lines(found: Sequence[Found]) -> Table:
    """Return the same without what stands below, for a terminal."""
    table = remedy_table(found)
    bare = (tuple(dataclasses.replace(cell, about="") for cell in row) for row in table.rows)
    return dataclasses.replace(table, rows=tuple(bare))


def _line(one: Found) -> tuple[Cell, ...]:
    without, remedy = one["without"], one["remedy"]
    reason = f"{one['reason']}; " if one["reason"] else ""
    faulty = _runs(without["faulty"], remedy["faulty"])
    return (
        named(f"{one['row']} ({one['part']}), {label(one['scenario'])}"),
        named(remedy["arm"]),
        _slowdown(without),
        _slowdown(remedy),
        _judged(one["gain"], one["buys"], f"{reason}{faulty}"),
        _judged(one["price"], one["costs"], f"{reason}{_runs(remedy['base'], without['base'])}"),
        _limplock(without, remedy, "node"),
        _limplock(without, remedy, "cluster"),
    )


def _limplock(without: Found, remedy: Found, name: str) -> Cell:
    """Return the verdict without the remedy, and the one with it: `yes to no`."""
    before, after = (side.get(name, "") for side in (without, remedy))
    # of a run before they were beside: ""
    return verdict_cell(after, before=before) if before and after else named(MISSING)


def _slowdown(side: Found) -> Cell:
    found, operation = side["slowdown"], side["operation"]
    about = bounds(found) if found else side["reason"]
    return dataclasses.replace(verdict_cell(operation, about), text=slowed(found), numeric=True)


def _judged(word: str, found: Found | None, about: str) -> Cell:
    """Return the word, the ratio, its bounds, and what they are of."""
    middle = ""
    if found is not None:
        middle, about = _middle(found), f"{bounds(found)}; {about}"
    text = f"{word}, {middle}" if middle else word
    return Cell(text, numeric=False, mood=_MOODS.get(word, ""), about=about)


def _middle(found: Found) -> str:
    """Return the median, as far as it is known where waits were cut short; "" where nothing is."""
    least, most = found["least"], found["most"]
    if most is None:
        return f"at least {factor(least)}" if least else ""
    if not least:
        return f"at most {factor(most)}"
    return factor(least) if least == most else f"{number(least)} to {factor(most)}"


def _runs(over: Sequence[Found], under: Sequence[Found]) -> str:
    """Durations of all repeats: `8.10, 8.30 for 2.40, at least 9.00 s`."""
    said = (", ".join(_duration(wait) for wait in waits) or MISSING for waits in (over, under))
    return f"{' for '.join(said)} s"


def _duration(wait: Found) -> str:
    return f"{'at least ' if wait['at_least'] else ''}{number(wait['seconds'])}"
