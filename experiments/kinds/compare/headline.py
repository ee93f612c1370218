"""The two arms in the headline of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def headline(
    baseline: str, other: str | None, body: Mapping[str, Any]
) -> tuple[str, str | None, Mapping[str, Mapping[str, Any]]]:
    """Return the two arms of the headline, and their factors; of many arms that of the best p95,
    but of a chain the first step's.

    Parameters: the arms that `improvement` of the result's body compares.
    """
    comparison = body.get("comparison") or {}
    known = {
        arm: entries["p95"]["factor"]
        for arm, entries in comparison.items()
        if (entries.get("p95") or {}).get("factor") is not None
    }
    if not known or is_a_chain(body):
        return baseline, other, body.get("improvement") or {}
    best = max(known, key=lambda arm: float(known[arm]))
    return baseline, best, comparison[best]


def is_a_chain(body: Mapping[str, Any]) -> bool:
    """Each arm but the first differs from the one before it in one thing: of a result's body."""
    found = body.get("steps") or ()
    return len(found) > 1 and len(found) == len(body.get("arms") or ()) - 1
