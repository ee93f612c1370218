"""Availability of the measured fleet by the plan's model, because no run of minutes measures it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from experiments.report.text import lasting, plain


def nines(share: float) -> str:
    """Return a share of a year as text, to three digits of what is missing to 100 %, so that no
    nine is rounded away.
    """
    missing = 100.0 * (1.0 - share)
    decimals = max(0, 2 - math.floor(math.log10(missing))) if missing > 0 else 0
    return f"{float(f'{100.0 * share:.{decimals}f}'):.15g} %"


def modelled(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return the required availability, the measured fleet's by the model, and `met`, which is null
    while it is not decided; None if the plan does not say.

    The SLO's `met` beside it is about the measured figures.
    """
    present = plan.get("present")
    required = ((plan.get("inputs") or {}).get("slo") or {}).get("availability")
    if not plan.get("feasible") or not present or required is None or not present["predicted"]:
        return None
    broken = "availability" in present["breaks"]
    unsure = broken and present["keeps_all_limits"] is None
    predicted = present["predicted"]["availability"]
    return {"asked": required, "predicted": predicted, "met": None if unsure else not broken}


def missed_words(slo: Mapping[str, Any] | None, plan: Mapping[str, Any]) -> str:
    """Return a sentence, with the plan's rates of failure, if the measured fleet misses its
    availability by the model; else "".
    """
    availability = (slo or {}).get("availability")
    if not availability or availability["met"] is not False:
        return ""
    predicted, required = nines(availability["predicted"]), nines(availability["asked"])
    return (
        f"That was measured; by the model of failures{_rates_text(plan)} this fleet is available "
        f"for {predicted} of a year, below the {required} asked for, so it does not keep the whole "
        "SLO."
    )


def _rates_text(plan: Mapping[str, Any]) -> str:
    rates = (plan.get("inputs") or {}).get("rates")
    if not rates:
        return ""
    repair_s = rates["repair_s"]
    repair = "no repair in the year" if repair_s is None else f"repair after {lasting(repair_s)}"
    return f" (crashes per machine and year: {plain(rates['crash_per_year'])}; {repair})"
