"""What limping machines cost in a plan, and whether a remedy is cheaper than the machines for them.

Planned again as if no machine limped: what the plan has beyond that (active machines, standbys,
replicas, larger types) is what was bought against limping, and what no remedy may cost more than.
Then planned again with each remedy: its fleet and its price together, beside the plan's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.plan.explain.curve import Budget, SpentError, fleet_text
from optimizer.plan.solve.model import Solution
from optimizer.tolerances import CENT

if TYPE_CHECKING:
    from optimizer.plan.ask.case import Case
    from optimizer.plan.ask.remedy import Remedy
    from optimizer.plan.solve.problem import Path


def against_limping(case: Case, found: Solution, budget: Budget) -> dict[str, Any]:
    """For plan.json: the fleet if nothing limped, what the plan has beyond it, each remedy.

    Returns: `without_limping` (usd_per_month, fleet, or `cut`), `usd_more` of the plan, `bought` by
    tier, `remedies` as rows, cheapest first, and `cheapest`: a remedy's name, or None where the
    plan's own machines are (or nothing is feasible).
    """
    budget.say("limping: none")
    plain = _row(case.without_limping(), budget)
    rows = [_with_remedy(case, remedy, budget) for remedy in case.remedies]
    own, less = found.usd_per_month, plain["row"].get("usd_per_month")
    known = [row for row in rows if row.get("usd_per_month") is not None]
    best = min(known, key=lambda row: float(row["usd_per_month"]), default=None)
    wins = best is not None and (own is None or best["usd_per_month"] < own - CENT)
    return {
        "without_limping": plain["row"],
        "usd_more": None if own is None or less is None else round(own - less, 2),
        "bought": _bought(plain["path"], found.path),
        "remedies": [*sorted(known, key=lambda r: float(r["usd_per_month"])),
                     *(row for row in rows if row not in known)],
        "cheapest": best["name"] if best is not None and wins else None,
    }  # fmt: skip


def _with_remedy(case: Case, remedy: Remedy, budget: Budget) -> dict[str, Any]:
    budget.say(f"limping: {remedy.name}")
    row = _row(case.with_remedy(remedy), budget)["row"]
    fleet = row.pop("usd_per_month", None)
    total = None if fleet is None else round(fleet + remedy.usd_per_month, 2)
    return {
        "name": remedy.name,
        "usd_remedy": remedy.usd_per_month,
        "usd_fleet": fleet,
        "usd_per_month": total,
        **row,
    }


def _row(case: Case, budget: Budget) -> dict[str, Any]:
    """The cheapest fleet of this case as a row, and as a path."""
    try:
        found = budget.solve(case.problem())
    except SpentError as ended:
        return {"row": {"cut": f"cut {ended}"}, "path": None}
    usd = None if found.usd_per_month is None else round(found.usd_per_month, 2)
    fleet = None if found.path is None else fleet_text(found.path)
    return {"row": {"usd_per_month": usd, "fleet": fleet}, "path": found.path}


def _bought(plain: Path | None, plan: Path | None) -> dict[str, dict[str, Any]]:
    """By tier what the plan has more than the fleet for which nothing limps; tiers that differ."""
    if plain is None or plan is None:
        return {}
    changed = {}
    for old, new in zip(plain, plan, strict=True):
        more = {
            "nodes": new.nodes - old.nodes,
            "standby": new.standby - old.standby,
            "replicas": new.replicas - old.replicas,
        }
        bought: dict[str, Any] = {key: count for key, count in more.items() if count}
        if new.instance.name != old.instance.name:
            bought["instance_type"] = f"{new.instance.name} in place of {old.instance.name}"
        if bought:
            changed[new.tier] = bought
    return changed
