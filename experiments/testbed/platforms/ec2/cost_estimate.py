"""Cost of a design's fleet on EC2, before any of it is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from core.errors import InputError
from core.json_object import JsonObject
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.fleet import Fleet
from experiments.design.inventory import Inventory
from experiments.testbed.platforms.base import CostEstimate, OptionValues
from experiments.testbed.platforms.ec2 import TTL_HOURS
from experiments.testbed.platforms.ec2.cost import (
    USD_PER_ADDRESS_HOUR,
    USD_PER_GB_MONTH,
    Bill,
    planned_machines,
    quote_of,
)
from experiments.testbed.platforms.ec2.platform import Ec2Platform, Rental

# The variables that `up` itself sets.
_RESERVED = ("experiment", "region", "ttl_hours", "expires", "spot", "usd_per_hour")


def offer(
    design: Design, platform: Ec2Platform, options: OptionValues, narrator: Narrator
) -> CostEstimate:
    """Show the price of a fleet, and return the fleet; `platform` is then ready to make it."""
    now = datetime.now(UTC)
    request = rental_request(
        platform, options["ttl_hours"], options["spot"], options["var"] or [], now
    )
    rental, bill = _price(design, platform, narrator, request, options["book"] or "ec2")
    platform.rental = rental
    check_limits(bill, options["max_usd"], options.get("planned_s"))

    def next_steps(_: Inventory) -> Sequence[str]:
        return [
            f"Until {rental.expires:%Y-%m-%d %H:%M} UTC: {len(bill.machines)} machines.",
            f"aws ssm start-session --region {platform.aws.region} --target {platform.runner()}",
            f"and there: `sparecraft run {design.name} --platform ec2`",
        ]

    about = {"cost": _cost_json(bill), "expires": rental.expires.isoformat()}
    return CostEstimate(
        platform, next_steps, f"Make it, for at most {bill.usd_most:.2f} USD?", about
    )


def check_limits(bill: Bill, max_usd: float | None, planned_s: float | None) -> None:
    """Raise InputError for a fleet that could cost more than `max_usd`, or that would end before
    the load of its run, which lasts `planned_s` [s] if that is known."""
    planned_h = (planned_s or 0.0) / 3600
    if planned_h > bill.ttl_hours:
        raise InputError(
            "--ttl-hours",
            expected=f"more than the {planned_h:.2g} h for which the run sends load",
            got=f"{bill.ttl_hours:g} h",
            hint="Give more, for the fleet has to be made too; or make the design shorter.",
        )
    if max_usd is not None and bill.usd_most > max_usd:
        lasts = f" The run sends load for {planned_h:.2g} h." if planned_s else ""
        raise InputError(
            f"--max-usd {max_usd:g}",
            expected=f"a fleet that costs at most {max_usd:.2f} USD until it ends",
            got=f"{bill.usd_most:.2f} USD in {bill.ttl_hours:g} h, every machine on",
            hint=f"Give fewer --ttl-hours, fewer or smaller machines, or more USD.{lasts}",
        )


def rental_request(
    platform: Ec2Platform, ttl_hours: float | None, spot: bool, variables: list[str], now: datetime
) -> Rental:
    """Return the request without prices. A fleet that is up keeps the values without an option."""
    applied = platform.stack.variables if platform.stack.state_resources() else {}
    other_variables = {name: value for name, value in applied.items() if name not in _RESERVED}
    other_variables |= _variables(variables, platform.stack.variable_names())
    spot = spot or bool(applied.get("spot"))
    end = datetime.fromisoformat(applied["expires"]) if applied else now
    if ttl_hours is None and end > now:
        return Rental(float(applied["ttl_hours"]), end, spot, more=other_variables)
    hours = TTL_HOURS if ttl_hours is None else ttl_hours
    return Rental(hours, now + timedelta(hours=hours), spot, more=other_variables)


def _variables(assignments: list[str], variable_names: set[str]) -> JsonObject:
    """Parse NAME=VALUE, a value as JSON if possible. Raises InputError for an unknown name."""
    values = JsonObject()
    free = sorted(variable_names - set(Fleet.model_fields) - set(_RESERVED))
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or name not in free:
            raise InputError(
                f"--var {text}",
                expected=f"NAME=VALUE of {', '.join(free)}",
                got=repr(name) if sign else "no =",
                hint="The fleet's own are in its fleet.tfvars; see --region, --ttl-hours, --spot.",
            )
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def _price(
    design: Design, platform: Ec2Platform, narrator: Narrator, request: Rental, book: str
) -> tuple[Rental, Bill]:
    """Add the prices to the request, and show the bill; returns both."""
    with narrator.step("Planning (terraform plan)"):
        platform.check()
        machines = planned_machines(platform.plan(design.directory / "fleet.tfvars", request))
    types = {machine.instance_type for machine in machines}
    quote, remark = quote_of(platform.aws.region, types, book, datetime.now(UTC).date())
    bill = Bill(machines, quote, request.ttl_hours)
    _show(bill, narrator, platform.aws, request.spot)
    if remark:
        narrator.say(remark)
    return replace(request, usd_per_hour=quote.usd_per_hour), bill


def _show(bill: Bill, narrator: Narrator, aws: Any, spot: bool) -> None:
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("machine", no_wrap=True)
    table.add_column("type", no_wrap=True)
    for column in ("USD/h", "disk GB"):
        table.add_column(column, justify="right", no_wrap=True)
    for machine in bill.machines:
        price = (
            "off" if machine.standby else f"{bill.quote.usd_per_hour[machine.instance_type]:.4f}"
        )
        table.add_row(machine.name, machine.instance_type, price, f"{machine.disk_gb:g}")
    narrator.console.print(table)
    say = narrator.say
    say(f"Account {aws.account()}, region {aws.region}. Prices of {bill.quote.as_of}.")
    say(f"Source: {bill.quote.source}.")
    if spot:
        say("Spot machines cost less than this, never more.")
    say(
        f"{bill.usd_per_hour:.4f} USD an hour, with {USD_PER_ADDRESS_HOUR} for each "
        f"public address and {bill.disk_gb:g} GB of disk at {USD_PER_GB_MONTH} a month; "
        f"at most {bill.usd_most:.2f} USD in {bill.ttl_hours:g} h, standbys on all "
        "the time. Traffic between zones (0.01 USD/GB) and out (0.09) is not in it."
    )
    say(
        "All machines end then, also standbys that are off; the network and the bucket stay: "
        "`sparecraft down` or `reap` removes those."
    )


def _cost_json(bill: Bill) -> JsonObject:
    return {
        "usd_per_hour": round(bill.usd_per_hour, 6),
        "usd_most": round(bill.usd_most, 4),
        "ttl_hours": bill.ttl_hours,
        "prices_as_of": bill.quote.as_of,
        "source": bill.quote.source,
        "machines": [
            {
                "name": machine.name,
                "instance_type": machine.instance_type,
                "standby": machine.standby,
                "disk_gb": machine.disk_gb,
                "usd_per_hour": bill.quote.usd_per_hour[machine.instance_type],
            }
            for machine in bill.machines
        ],
    }
