"""The variants of a plan on a terminal: their capacity, and their share of wrong answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say

_UNITS = {
    "wrong_per_million": "wrong answers per million",
    "corrupt_s_per_month": "corrupt seconds a month, worst tier",
}


def print_integrity(found: Mapping[str, Any]) -> None:
    """The content of `integrity` of plan.json, and its cost."""
    sure = f"{found['level']:.4g}"
    table = plain_table(
        "tier", "variant", "carries", "silent of faults", f"at most, {sure}", left=2
    )
    for name, tier in found["tiers"].items():
        corrupt = tier["corrupt_p"]
        high = "no counts" if tier["injections"] is None else f"{corrupt['high']:.3%}"
        cells = [tier["variant"], f"{tier['nodt']:.0%}", f"{corrupt['expected']:.3%}", high]
        table.add_row(name, *cells)
    print_table(table)
    without = found["without"]
    other = without if without["variants"] else {}
    none = "the same" if without["found"] else "not found in time"
    table = plain_table("integrity", "SLO", "expected", "interval", "without the SLO")
    for key, unit in _UNITS.items():
        one, asked = found[key], found["asked"][key]
        free = other.get(key)
        cells = ["-" if asked is None else f"{asked:g}", f"{one['expected']:.4g}"]
        cells += [f"{one['low']:.4g} to {one['high']:.4g}"]
        cells += [none if free is None else f"{free['expected']:.4g}"]
        table.add_row(unit, *cells)
    print_table(table)
    say(
        f"{found['choices_that_keep']} of {found['choices']} choices of variants keep it, counted "
        f"figures at their upper bound (confidence {found['confidence']:g} together)."
    )
    if without["variants"] and without["usd_less"] is not None:
        names = ", ".join(f"{tier} {variant}" for tier, variant in without["variants"].items())
        say(f"Without it: {names}, {without['usd_less']:.2f} USD a month less.")
