"""The variants of a plan on a terminal: their capacity, and their share of wrong answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say

_UNITS = {
    "wrong_per_million": "wrong answers per million",
    "corrupt_s_per_month": "corrupt seconds a month, worst tier",
}


def print_integrity(integrity: Mapping[str, Any]) -> None:
    """Print `integrity` of plan.json, and its cost."""
    confidence = f"{integrity['level']:.4g}"
    table = plain_table(
        "tier", "variant", "carries", "silent of faults", f"at most, {confidence}", left=2
    )
    for name, tier in integrity["tiers"].items():
        corrupt = tier["corrupt_p"]
        high = "no counts" if tier["injections"] is None else f"{corrupt['high']:.3%}"
        cells = [tier["variant"], f"{tier['nodt']:.0%}", f"{corrupt['expected']:.3%}", high]
        table.add_row(name, *cells)
    print_table(table)
    without_slo = integrity["without"]
    figures_without = without_slo if without_slo["variants"] else {}
    none = "the same" if without_slo["found"] else "not found in time"
    table = plain_table("integrity", "SLO", "expected", "interval", "without the SLO")
    for key, unit in _UNITS.items():
        figure, limit = integrity[key], integrity["asked"][key]
        figure_without = figures_without.get(key)
        cells = ["-" if limit is None else f"{limit:g}", f"{figure['expected']:.4g}"]
        cells += [f"{figure['low']:.4g} to {figure['high']:.4g}"]
        cells += [none if figure_without is None else f"{figure_without['expected']:.4g}"]
        table.add_row(unit, *cells)
    print_table(table)
    say(
        f"{integrity['choices_that_keep']} of {integrity['choices']} choices of variants keep it, "
        f"counted figures at their upper bound (confidence {integrity['confidence']:g} together)."
    )
    if without_slo["variants"] and without_slo["usd_less"] is not None:
        names = ", ".join(f"{tier} {variant}" for tier, variant in without_slo["variants"].items())
        say(f"Without it: {names}, {without_slo['usd_less']:.2f} USD a month less.")
