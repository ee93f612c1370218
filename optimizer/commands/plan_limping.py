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


def print_limping(found: AgainstLimping, usd: float | None) -> None:
    """The plan, each way out, the fleet if nothing limped; what was bought, what is cheapest."""
    table = plain_table("against limping", "fleet", "remedy", "USD a month", "machines")
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    table.add_row("this plan", _usd(usd), "", _usd(usd), "")
    alone = ("only spares more", found["spares"]), ("only copies more", found["replication"])
    for name, row in alone:
        cost = _cost(row, "usd_per_month")
        table.add_row(name, cost, "", cost, _machines(row))
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


def _cheapest(found: AgainstLimping) -> str:
    best = found["cheapest"]
    decided = "cut" not in found["spares"] and "cut" not in found["replication"]
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
    for names, may in ((best["perhaps_cheaper"], "cheaper"), (best["perhaps_equal"], "as cheap")):
        if names:
            text += f" Not decided, so perhaps {may}: {', '.join(names)}."
    return text


def _machines(row: Row) -> str:
    return row.get("cut") or row.get("reason") or row["fleet"] or ""


def _more(key: str, value: int | str) -> str:
    return str(value) if key == "instance_type" else f"{value:+d} {_MACHINES[key]}"


def _cost(row: Row, key: Literal["usd_per_month", "usd_fleet"]) -> str:
    return "not decided" if "cut" in row else _usd(row[key])


def _usd(usd: float | None) -> str:
    return "not feasible" if usd is None else f"{usd:.2f}"
