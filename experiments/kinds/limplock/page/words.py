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
Found = Mapping[str, Any]


def verdict_cell(verdict: str, about: str = "", before: str = "") -> Cell:
    """Return a verdict of limplock with its colour; `yes to no` after another one."""
    text = " to ".join(_SHORT.get(word, word) for word in (before, verdict) if word)
    return Cell(text, numeric=False, mood=_MOODS[verdict], about=about)


def slowed(found: Found | None, key: str = "factor") -> str:
    """Return a ratio: `at least 3.10 ×`."""
    if found is None:
        return MISSING
    return f"{'at least ' if found['at_least'] else ''}{factor(found[key])}"


def bounds(found: Found | None) -> str:
    """Its bounds: `2.10 to 4.20`, `2.10 or more`."""
    if found is None:
        return ""
    low, high = found["low"], found["high"]
    if high is None:
        return f"{number(low)} or more" if low else "no bounds"
    return f"{number(low)} to {number(high)}"
