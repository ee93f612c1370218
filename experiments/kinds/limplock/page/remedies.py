"""Settings that heal a row, on the page and on a terminal: gain and cost of remedies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.kinds.limplock.page.words import Finding, bounds, ratio_text, verdict_cell
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


def remedy_table(remedies: Sequence[Finding]) -> Table:
    """Return a line for each row, part, remedy and severity, with bounds and the repeats
    themselves.
    """
    return Table("remedy-table", "Which setting heals it", _HEAD, tuple(map(_line, remedies)))


def _line(line: Finding) -> tuple[Cell, ...]:
    without, remedy = line["without"], line["remedy"]
    reason = f"{line['reason']}; " if line["reason"] else ""
    faulty = _runs(without["faulty"], remedy["faulty"])
    base = _runs(remedy["base"], without["base"])
    return (
        named(f"{line['row']} ({line['part']}), {label(line['scenario'])}"),
        named(remedy["arm"]),
        _slowdown(without),
        _slowdown(remedy),
        _judged_cell(line["gain"], line["buys"], f"{reason}{faulty}"),
        _judged_cell(line["price"], line["costs"], f"{reason}{base}"),
        _limplock(without, remedy, "node"),
        _limplock(without, remedy, "cluster"),
    )


def _limplock(without: Finding, remedy: Finding, name: str) -> Cell:
    """Return the verdict without the remedy, and the one with it: `yes to no`."""
    before, after = (side.get(name, "") for side in (without, remedy))
    # "" in runs made before remedies had these verdicts
    return verdict_cell(after, before=before) if before and after else named(MISSING)


def _slowdown(side: Finding) -> Cell:
    ratio, operation = side["slowdown"], side["operation"]
    about = bounds(ratio) if ratio else side["reason"]
    return dataclasses.replace(verdict_cell(operation, about), text=ratio_text(ratio), numeric=True)


def _judged_cell(verdict: str, ratio: Finding | None, about: str) -> Cell:
    middle = ""
    if ratio is not None:
        middle, about = _median_text(ratio), f"{bounds(ratio)}; {about}"
    text = f"{verdict}, {middle}" if middle else verdict
    return Cell(text, numeric=False, mood=_MOODS.get(verdict, ""), about=about)


def _median_text(ratio: Finding) -> str:
    """Return the median, or its limits if waits were cut short; "" if neither is known."""
    least, most = ratio["least"], ratio["most"]
    if most is None:
        return f"at least {factor(least)}" if least else ""
    if not least:
        return f"at most {factor(most)}"
    return factor(least) if least == most else f"{number(least)} to {factor(most)}"


def _runs(over: Sequence[Finding], under: Sequence[Finding]) -> str:
    """Durations of all repeats: `8.10, 8.30 for 2.40, at least 9.00 s`."""
    texts = (", ".join(_duration(wait) for wait in waits) or MISSING for waits in (over, under))
    return f"{' for '.join(texts)} s"


def _duration(wait: Finding) -> str:
    return f"{'at least ' if wait['at_least'] else ''}{number(wait['seconds'])}"
