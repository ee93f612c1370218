"""The two arms in the headline of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def headline(
    baseline: str, other_arm: str | None, body: Mapping[str, Any]
) -> tuple[str, str | None, Mapping[str, Mapping[str, Any]]]:
    """Return the two arms of the headline, and their factors.

    The second of several arms is the one with the best p95; a chain has the arms of its first step.
    Parameters: the arms that `improvement` of the result's body compares, and the body.
    """
    comparison = body.get("comparison") or {}
    p95_factors = {
        arm: entries["p95"]["factor"]
        for arm, entries in comparison.items()
        if (entries.get("p95") or {}).get("factor") is not None
    }
    if not p95_factors or is_a_chain(body):
        return baseline, other_arm, body.get("improvement") or {}
    best = max(p95_factors, key=lambda arm: float(p95_factors[arm]))
    return baseline, best, comparison[best]


def is_a_chain(body: Mapping[str, Any]) -> bool:
    """Tell whether, in a result's body, each arm but the first differs from the one before it in
    one thing."""
    steps = body.get("steps") or ()
    return len(steps) > 1 and len(steps) == len(body.get("arms") or ()) - 1
