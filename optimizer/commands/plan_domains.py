"""Placement of a plan's machines, and its service without a domain, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say


def print_domains(placement: Mapping[str, Any], usd: float | None) -> None:
    """Print the spread, the rest without the worst domain of each level, the cost of the rules."""
    if "spread" in placement:
        _print_spread(placement)
    table = plain_table("without", "fleet", "USD a month", "less", left=2)
    for row in placement["without"]:
        cost = row["usd_per_month"]
        no_cost = "not feasible" if row["proved"] else "not found in time"
        cost_text = no_cost if cost is None else f"{cost:.2f}"
        saving = "" if cost is None or usd is None else f"{usd - cost:.2f}"
        rule = row["limit"].removeprefix("domains.")
        name = "any domain" if rule == "domains" else rule
        table.add_row(name, row["fleet"] or "", cost_text, saving)
    print_table(table)


def _print_spread(placement: Mapping[str, Any]) -> None:
    table = plain_table("spread", "tier", "machines", "one gone: left", "needed", "load", left=2)
    tails = []
    for loss in placement["one_gone"]:
        level = loss["level"]
        for tier, remaining in loss["tiers"].items():
            sizes = "+".join(str(size) for size in placement["spread"][tier][level])
            load = (
                "none left"
                if remaining["utilisation"] is None
                else f"{remaining['utilisation']:.0%}"
            )
            table.add_row(
                level, tier, sizes, str(remaining["left"]), str(remaining["needed"]), load
            )
        tails += [_loss_words(loss)]
    print_table(table)
    for line in tails:
        say(line)


def _loss_words(loss: Mapping[str, Any]) -> str:
    figures = [
        f"{key.removesuffix('_ms')} {'without end' if loss[key] is None else f'{loss[key]:.0f} ms'}"
        for key in ("p95_ms", "p99_ms")
        if key in loss
    ]
    outcome = "all limits are kept" if loss["survives"] else "a tier has too few machines"
    return f"Without any one {loss['level']}: {', '.join([outcome, *figures])}."
