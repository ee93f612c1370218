"""Sensitivity of cost and fleet to inputs that are not well known: each is changed, and planned
again.

For example a rate from a few crashes, a growing arrival rate, a noisier neighbour. If the plan
stays the same, it is safe against the change; if not, that input should be measured better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from core.errors import SparecraftError
from optimizer.plan.explain.curve import Budget, SpentError, fleet_text
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem

# what is changed, and by which factors
CHANGES: Mapping[str, tuple[float, ...]] = {
    "crash_per_year": (0.5, 2.0),
    "failover_s": (0.5, 2.0),
    "repair_s": (0.5, 2.0),
    "arrival_rate": (0.8, 1.2),
    "interference_share": (0.5, 2.0),
    "gamma": (0.5, 2.0),
}


class Variants(Protocol):
    """The inputs of a problem, from which a changed problem can be made."""

    @property
    def max_nodes(self) -> int:
        """Most nodes and standbys of a tier."""

    def problem(self, *, max_nodes: int | None = None, check: Check = unbounded) -> Problem:
        """Return the problem, optionally with other max_nodes; `check` may raise to stop it."""

    def changed(self, name: str, factor: float, check: Check = unbounded) -> Problem | None:
        """Return the problem with one input (a key of CHANGES) multiplied by `factor`.

        None if there is no such input, or the factor does not change it.
        """


def sensitivity(source: Variants, solution: Solution, budget: Budget) -> list[dict[str, object]]:
    """Plan again with each input changed, one at a time.

    Returns: rows with `input`, `factor`, `usd_per_month` (None: nothing is feasible), `usd_more`
    and `changed` (the tiers that are built differently), or `cut` if the budget ended before
    or the models refuse the input. Inputs that do not exist are left out.
    """
    assert solution.path is not None
    rows: list[dict[str, object]] = []
    for name, factors in CHANGES.items():
        for factor in factors:
            budget.say(f"sensitivity: {name} x {factor:g}")
            try:
                problem = source.changed(name, factor, budget.check)
                if problem is None:
                    continue
                changed = budget.solve(problem)
            except (SpentError, SparecraftError) as ended:
                reason = ended if isinstance(ended, SpentError) else f"by an error: {ended.place}"
                rows.append({"input": name, "factor": factor, "cut": f"cut {reason}"})
                continue
            rows.append(_row(name, factor, changed, solution.path))
    return rows


def _row(name: str, factor: float, changed: Solution, path: Path) -> dict[str, object]:
    row: dict[str, object] = {"input": name, "factor": factor, "usd_per_month": None}
    if changed.path is None:
        return {**row, "usd_more": None, "fleet": None, "changed": []}
    return {
        **row,
        "usd_per_month": round(cost(changed.path), 2),
        "usd_more": round(cost(changed.path) - cost(path), 2),
        "fleet": fleet_text(changed.path),
        "changed": [
            new.tier
            for old, new in zip(path, changed.path, strict=True)
            if fleet_text((old,)) != fleet_text((new,))
        ],
    }
