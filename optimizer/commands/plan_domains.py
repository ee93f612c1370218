"""Placement of a plan's machines, and its service without a domain, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say


def print_domains(found: Mapping[str, Any], usd: float | None) -> None:
    """The spread, what is left without the worst domain of each level, what the rules cost."""
    if "spread" in found:
        _print_spread(found)
    table = plain_table("without", "fleet", "USD a month", "less", left=2)
    for row in found["without"]:
        cost = row["usd_per_month"]
        none = "not feasible" if row["proved"] else "not found in time"
        shown = none if cost is None else f"{cost:.2f}"
        less = "" if cost is None or usd is None else f"{usd - cost:.2f}"
        rule = row["limit"].removeprefix("domains.")
        name = "any domain" if rule == "domains" else rule
        table.add_row(name, row["fleet"] or "", shown, less)
    print_table(table)


def _print_spread(found: Mapping[str, Any]) -> None:
    table = plain_table("spread", "tier", "machines", "one gone: left", "needed", "load", left=2)
    tails = []
    for gone in found["one_gone"]:
        level = gone["level"]
        for tier, one in gone["tiers"].items():
            sizes = "+".join(str(size) for size in found["spread"][tier][level])
            load = "none left" if one["utilisation"] is None else f"{one['utilisation']:.0%}"
            table.add_row(level, tier, sizes, str(one["left"]), str(one["needed"]), load)
        tails += [_tail(gone)]
    print_table(table)
    for line in tails:
        say(line)


def _tail(gone: Mapping[str, Any]) -> str:
    figures = [
        f"{key.removesuffix('_ms')} {'without end' if gone[key] is None else f'{gone[key]:.0f} ms'}"
        for key in ("p95_ms", "p99_ms")
        if key in gone
    ]
    what = "all limits are kept" if gone["survives"] else "a tier has too few machines"
    return f"Without any one {gone['level']}: {', '.join([what, *figures])}."
