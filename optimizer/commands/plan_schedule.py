"""The schedule beside a plan, on a terminal: machines by the hour and their purchase options."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from core.terminal import plain_table, print_table, say
from core.tolerances import NO_BOUND

_DAY = 24


def print_schedule(body: Mapping[str, Any]) -> None:
    """Print the cost beside the standing fleet, machines by kind and by hour, and the reasons."""
    say("")
    if body["usd_per_month"] is None:
        say(f"By the hour: {body['reasons'][0]}.")
        return
    comparison = f"{_saving_words(body)}{_proof_words(body)}"
    say(f"By the hour: {body['usd_per_month']:.2f} USD a month, {comparison}")
    print_table(_machines(body))
    print_table(_hours(body))
    if "front" in body:
        _print_front(body["front"])
    for line in body["reasons"]:
        say(f"  {line}")
    say("  fleet.tfvars has the standing fleet, and these hours as remarks: no stack changes")
    say("  machines by the hour. plan.json (--output) has them as figures, --figures draws them.")


def _saving_words(body: Mapping[str, Any]) -> str:
    saved = body["saved_usd_per_month"]
    return f"{abs(saved):.2f} {'less' if saved >= 0 else 'more'} than the standing fleet"


def _proof_words(body: Mapping[str, Any]) -> str:
    objectives = {"usd": "cheapest", "nodes": "fewest machines", "energy": "least energy"}
    objective, gap = objectives[body["objective"]], body["gap"]
    if body["proved"]:
        return f" ({objective}: proved)"
    if gap < NO_BOUND:
        return f" (not proved: the {objective} may be up to {gap:.1%} less)"
    return f" (nothing is proved of the {objective})"


def _machines(body: Mapping[str, Any]) -> Any:
    table = plain_table("machines", "type", "paid", "bought", "most", "USD", left=3)
    for name, tier in body["tiers"].items():
        tier_name = name
        for machine in tier["machines"]:
            bought = str(machine["bought"]) if machine["bought"] else ""
            table.add_row(
                tier_name,
                machine["instance_type"],
                machine["purchase"],
                bought,
                str(machine["most"]),
                f"{machine['usd_per_month']:.2f}",
            )
            tier_name = ""
    return table


def _hours(body: Mapping[str, Any]) -> Any:
    table = plain_table("hours", "load", "running", "reserved", "on demand", "spot")
    for first, last, row in _group_alike(body):
        hours = _hour(first) if first == last else f"{_hour(first)} to {_hour(last)}"
        counts = [str(row[key]) for key in ("running", "reserved", "on_demand", "spot")]
        table.add_row(hours, f"{row['per_s']:.4g}/s", *counts)
    return table


def _hour(number: int) -> str:
    day, hour = divmod(number, _DAY)
    return f"{hour:02d}:00" if number < _DAY else f"day {day + 1} {hour:02d}:00"


def _group_alike(body: Mapping[str, Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield each run of hours with the same load and machines: first and last hour, one row."""

    def key(row: Mapping[str, Any]) -> list[Any]:
        return [value for name, value in row.items() if name != "hour"]

    for _, rows in itertools.groupby(body["by_hour"], key):
        alike = list(rows)
        yield alike[0]["hour"], alike[-1]["hour"], alike[0]


def _print_front(points: list[Mapping[str, Any]]) -> None:
    if not points:
        return
    measure = next(key for key in points[0] if key not in ("usd_per_month", "proved"))
    title = {"machines": "machines on average", "kwh_per_month": "kWh a month"}[measure]
    table = plain_table(title, "USD a month", "proved")
    for point in points:
        proved = "yes" if point["proved"] else "no"
        table.add_row(f"{point[measure]:.6g}", f"{point['usd_per_month']:.2f}", proved)
    print_table(table)
