"""`sparecraft availability`: one fleet's availability, or the least fleet for a target."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from optimizer.availability import FailureRates, active_route_anywhere, passive_failover
from optimizer.commands.output import JsonOption, print_json, say


class Mechanism(StrEnum):
    """How failures are covered."""

    ara = "ara"
    pf = "pf"


class Scheme(StrEnum):
    """Where the fleet lives."""

    cloud = "cloud"
    on_prem = "on-prem"


def add_to(app: typer.Typer) -> None:
    """Add `sparecraft availability`."""
    app.command()(availability)


def availability(
    mechanism: Annotated[Mechanism, typer.Option(help="Extra active nodes, or a cold pool.")],
    scheme: Annotated[Scheme, typer.Option(help="Crashed nodes are replaced, or not.")],
    nodes: Annotated[int, typer.Option(help="Nodes that carry the load.")],
    crash_per_year: Annotated[float, typer.Option(help="Crashes per node and year.")],
    extra: Annotated[int, typer.Option(help="Extra active nodes (ara), pool nodes (pf).")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Expected share of a year with enough nodes up (PCRAFT)."""
    began = time.perf_counter()
    rates = FailureRates(crash_per_year)
    if mechanism is Mechanism.ara:
        found = active_route_anywhere(nodes, extra, rates, scheme=scheme.value)
    else:
        pool = None if scheme is Scheme.cloud else extra
        found = passive_failover(nodes, pool, rates, scheme=scheme.value)
    body = {
        "availability": found.availability,
        "error_bound": found.error_bound,
        "states": found.states,
        "seconds": time.perf_counter() - began,
    }
    if as_json:
        print_json(body)
    else:
        say(f"availability {found.availability:.9f} (error below {found.error_bound:.1e})")
