"""What limping machines cost in a plan, and the remedies beside it, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.commands.output import plain_table, print_table, say

_MACHINES = {"nodes": "active", "standby": "standby", "replicas": "r"}


def print_limping(found: Mapping[str, Any], usd: float | None) -> None:
    """The plan, each remedy, the fleet if nothing limped; what was bought, and what is cheapest."""
    table = plain_table("against limping", "fleet", "remedy", "USD a month", "machines")
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    table.add_row("this plan", _usd(usd), "", _usd(usd), "")
    for row in found["remedies"]:
        cells = (_usd(row["usd_fleet"]), _usd(row["usd_remedy"]), _usd(row["usd_per_month"]))
        table.add_row(row["name"], *cells, _machines(row))
    plain = found["without_limping"]
    cost = _usd(plain.get("usd_per_month"))
    table.add_row("if none limped", cost, "", cost, _machines(plain))
    print_table(table)
    for tier, bought in found["bought"].items():
        more = ", ".join(_more(key, value) for key, value in bought.items())
        say(f"Because machines limp, {tier} has: {more}.")
    own = "this plan" if usd is not None else "none: nothing is feasible"
    say(f"Cheapest: {found['cheapest'] or own}.")


def _machines(row: Mapping[str, Any]) -> str:
    return row.get("cut") or row["fleet"] or ""


def _more(key: str, value: int | str) -> str:
    return str(value) if key == "instance_type" else f"{value:+d} {_MACHINES[key]}"


def _usd(usd: float | None) -> str:
    return "not feasible" if usd is None else f"{usd:.2f}"
