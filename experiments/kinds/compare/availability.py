"""Availability of the measured fleet by the plan's model, because no run of minutes measures it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nines(share: float) -> str:
    """Return a share of a year, of which no nine is rounded away."""
    return f"{100.0 * share:.9g} %"


def modelled(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return the availability asked for, the one that the model gives the measured fleet, and
    whether that keeps it (`met` null: not decided); None if the plan does not say.

    The SLO's `met` beside it is of what was measured.
    """
    present = plan.get("present")
    asked = ((plan.get("inputs") or {}).get("slo") or {}).get("availability")
    if not plan.get("feasible") or not present or asked is None or not present["predicted"]:
        return None
    broken = "availability" in present["breaks"]
    unsure = broken and present["keeps_all_limits"] is None
    predicted = present["predicted"]["availability"]
    return {"asked": asked, "predicted": predicted, "met": None if unsure else not broken}


def missed_words(slo: Mapping[str, Any] | None) -> str:
    """Return a sentence where the model says that the measured fleet misses its availability; ""
    else.
    """
    found = (slo or {}).get("availability")
    if not found or found["met"] is not False:
        return ""
    predicted, asked = nines(found["predicted"]), nines(found["asked"])
    return (
        f"That was measured; by the model of failures this fleet is available for {predicted} of a "
        f"year, below the {asked} asked for, so it does not keep the whole SLO."
    )
