"""Which two arms a comparison speaks of first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def headline(
    baseline: str, other: str | None, body: Mapping[str, Any]
) -> tuple[str, str | None, dict[str, Any]]:
    """The two arms of the headline, and their factors; of many arms that of the best p95.

    Parameters: the arms that `improvement` of the result's body compares.
    """
    comparison = body.get("comparison") or {}
    known = {
        arm: entries["p95"]["factor"]
        for arm, entries in comparison.items()
        if (entries.get("p95") or {}).get("factor") is not None
    }
    if not known:
        return baseline, other, body.get("improvement") or {}
    best = max(known, key=lambda arm: float(known[arm]))
    return baseline, best, comparison[best]
