"""Cost of limping machines in a plan, and the countermeasures, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from core.terminal import plain_table, print_table, say

if TYPE_CHECKING:
    from optimizer.plan.explain.remedies import AgainstLimping, Row

_MACHINES = {"nodes": "active", "standby": "standby", "replicas": "r"}
_WAYS = {
    "nothing": "nothing, as limping costs this plan nothing",
    "spares": "spares",
    "replication": "a higher replication factor",
    "plan": "this plan{below}",
    "remedy": "the remedy {name}",
}


def print_limping(limping: AgainstLimping, usd: float | None) -> None:
    """Print the plan, each countermeasure, the fleet if nothing limped, and the cheapest way."""
    table = plain_table("against limping", "fleet", "remedy", "USD a month", "machines")
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    table.add_row("this plan", _usd(usd), "", _usd(usd), "")
    single_ways = (
        ("only spares more", limping["spares"]),
        ("only copies more", limping["replication"]),
    )
    for name, row in single_ways:
        cost = _cost(row, "usd_per_month")
        table.add_row(name, cost, "", cost, _machines(row))
    for row in limping["remedies"]:
        cells = (_cost(row, "usd_fleet"), _usd(row["usd_remedy"]), _cost(row, "usd_per_month"))
        table.add_row(row["name"], *cells, _machines(row))
    unlimped = limping["without_limping"]
    cost = _cost(unlimped, "usd_per_month")
    table.add_row("if none limped", cost, "", cost, _machines(unlimped))
    print_table(table)
    for tier, purchases in limping["bought"].items():
        purchase_words = ", ".join(_purchase_words(key, value) for key, value in purchases.items())
        say(f"Because machines limp, {tier} has: {purchase_words}.")
    say(_cheapest_words(limping))


def _cheapest_words(limping: AgainstLimping) -> str:
    cheapest = limping["cheapest"]
    single_ways_decided = "cut" not in limping["spares"] and "cut" not in limping["replication"]
    if cheapest["way"] is None:
        if cheapest["perhaps_cheaper"]:
            candidates = ", ".join(cheapest["perhaps_cheaper"])
            return f"Cheapest: none found. Not decided, so perhaps feasible: {candidates}."
        text = "Cheapest: none, as nothing is feasible."
    else:
        below = ", below spares alone and copies alone" if single_ways_decided else ""
        way = _WAYS[cheapest["way"]].format(name=cheapest["name"], below=below)
        text = f"Cheapest: {way}, at {cheapest['usd_per_month']:.2f} USD a month."
    if cheapest["equal"]:
        text += f" As cheap: {', '.join(cheapest['equal'])}."
    for names, comparison in (
        (cheapest["perhaps_cheaper"], "cheaper"),
        (cheapest["perhaps_equal"], "as cheap"),
    ):
        if names:
            text += f" Not decided, so perhaps {comparison}: {', '.join(names)}."
    return text


def _machines(row: Row) -> str:
    return row.get("cut") or row.get("reason") or row["fleet"] or ""


def _purchase_words(key: str, value: int | str) -> str:
    return str(value) if key == "instance_type" else f"{value:+d} {_MACHINES[key]}"


def _cost(row: Row, key: Literal["usd_per_month", "usd_fleet"]) -> str:
    return "not decided" if "cut" in row else _usd(row[key])


def _usd(usd: float | None) -> str:
    return "not feasible" if usd is None else f"{usd:.2f}"
