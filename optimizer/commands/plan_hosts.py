"""The own servers of a plan, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.terminal import plain_table, print_table, say


def print_hosts(body: Mapping[str, Any]) -> None:
    """Print the cost of the servers in use, and the tiers whose machines stand on each."""
    say("")
    if body["usd_per_month"] is None:
        say(f"On your own servers: {body['reasons'][0]}.")
        return
    say(f"On your own servers: {body['usd_per_month']:.2f} USD a month (the least: proved)")
    table = plain_table("server", "machines of", "cores", "memory", left=2)
    for server in body["servers"]:
        table.add_row(
            server["host"],
            ", ".join(server["tiers"]),
            f"{server['cores']:.0%}",
            f"{server['memory']:.0%}",
        )
    print_table(table)
    for name, tier in body["tiers"].items():
        spares = f" and {tier['spares']} standby" if tier["spares"] else ""
        say(f"  {name}: {tier['nodes']} of {tier['instance_type']}{spares}, r {tier['replicas']}")
    say("  fleet.tfvars has the fleet that is the cheapest by slices, and this one as remarks.")
