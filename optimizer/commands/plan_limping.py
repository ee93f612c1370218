"""Cost of limping machines in a plan, and the countermeasures, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say

_MACHINES = {"nodes": "active", "standby": "standby", "replicas": "r"}
_ALONE = ("spares", "replication")
_WAYS = {
    "nothing": "nothing, as limping costs this plan nothing",
    "spares": "spares",
    "replication": "a higher replication factor",
    "plan": "this plan{below}",
    "remedy": "the remedy {name}",
}


def print_limping(found: Mapping[str, Any], usd: float | None) -> None:
    """The plan, each way out, the fleet if nothing limped; what was bought, what is cheapest."""
    table = plain_table("against limping", "fleet", "remedy", "USD a month", "machines")
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    table.add_row("this plan", _usd(usd), "", _usd(usd), "")
    for name, way in (("only spares more", "spares"), ("only copies more", "replication")):
        cost = _cost(found[way], "usd_per_month")
        table.add_row(name, cost, "", cost, _machines(found[way]))
    for row in found["remedies"]:
        cells = (_cost(row, "usd_fleet"), _usd(row["usd_remedy"]), _cost(row, "usd_per_month"))
        table.add_row(row["name"], *cells, _machines(row))
    plain = found["without_limping"]
    cost = _cost(plain, "usd_per_month")
    table.add_row("if none limped", cost, "", cost, _machines(plain))
    print_table(table)
    for tier, bought in found["bought"].items():
        more = ", ".join(_more(key, value) for key, value in bought.items())
        say(f"Because machines limp, {tier} has: {more}.")
    say(_cheapest(found))


def _cheapest(found: Mapping[str, Any]) -> str:
    best, decided = found["cheapest"], all("cut" not in found[way] for way in _ALONE)
    if best["way"] is None:
        if best["perhaps_cheaper"]:
            undecided = ", ".join(best["perhaps_cheaper"])
            return f"Cheapest: none found. Not decided, so perhaps feasible: {undecided}."
        text = "Cheapest: none, as nothing is feasible."
    else:
        below = ", below spares alone and copies alone" if decided else ""
        way = _WAYS[best["way"]].format(name=best["name"], below=below)
        text = f"Cheapest: {way}, at {best['usd_per_month']:.2f} USD a month."
    if best["equal"]:
        text += f" As cheap: {', '.join(best['equal'])}."
    for key, may in (("perhaps_cheaper", "cheaper"), ("perhaps_equal", "as cheap")):
        if best[key]:
            text += f" Not decided, so perhaps {may}: {', '.join(best[key])}."
    return text


def _machines(row: Mapping[str, Any]) -> str:
    return row.get("cut") or row.get("reason") or row["fleet"] or ""


def _more(key: str, value: int | str) -> str:
    return str(value) if key == "instance_type" else f"{value:+d} {_MACHINES[key]}"


def _cost(row: Mapping[str, Any], key: str) -> str:
    return "not decided" if "cut" in row else _usd(row[key])


def _usd(usd: float | None) -> str:
    return "not feasible" if usd is None else f"{usd:.2f}"
