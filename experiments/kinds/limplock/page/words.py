"""Slowdowns as words and cells; a bound if waits were cut short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.report.tables import Cell
from experiments.report.text import MISSING, factor, number

_MOODS = {
    "yes": "bad", "no": "good", "insufficient": "unknown", "under-dosed": "unknown",
    "unread": "void",
}  # fmt: skip
_SHORT = {"insufficient": "?"}
Finding = Mapping[str, Any]


def verdict_cell(verdict: str, about: str = "", before: str = "") -> Cell:
    """Return a verdict of limplock with its colour; `yes to no` if there is one before."""
    text = " to ".join(_SHORT.get(name, name) for name in (before, verdict) if name)
    return Cell(text, numeric=False, mood=_MOODS[verdict], about=about)


def ratio_text(ratio: Finding | None, key: str = "factor") -> str:
    """Return a ratio: `at least 3.10 ×`."""
    if ratio is None:
        return MISSING
    return f"{'at least ' if ratio['at_least'] else ''}{factor(ratio[key])}"


def bounds(ratio: Finding | None) -> str:
    """Return a ratio's bounds: `2.10 to 4.20`, `2.10 or more`."""
    if ratio is None:
        return ""
    low, high = ratio["low"], ratio["high"]
    if high is None:
        return f"{number(low)} or more" if low else "no bounds"
    return f"{number(low)} to {number(high)}"
