"""`sparecraft up`: a design's fleet, on this host or, for money, on EC2."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from experiments.commands.options import (
    DesignArgument,
    JsonOption,
    PlatformName,
    PlatformOption,
    RegionOption,
    YesOption,
    confirm,
    err,
    only_ec2,
    out,
)
from experiments.platform import LocalPlatform
from experiments.platform.cost import (
    USD_PER_ADDRESS_HOUR,
    USD_PER_GB_MONTH,
    Bill,
    planned_machines,
    quote_of,
)
from experiments.platform.ec2 import Ec2Platform, Rental
from experiments.runner.console import Narrator
from experiments.runner.fleet import bring_up
from experiments.spec import Design, load_design
from optimizer.commands.output import print_json

TTL_HOURS = 4.0


def add_to(app: typer.Typer) -> None:
    """Add `sparecraft up`."""
    app.command()(up)


def up(
    design: DesignArgument,
    platform: PlatformOption = PlatformName.local,
    region: RegionOption = None,
    ttl_hours: Annotated[
        float | None,
        typer.Option(
            "--ttl-hours",
            min=0.5,
            max=168.0,
            help=f"EC2: hours until the machines end themselves. [default: {TTL_HOURS:g}]",
        ),
    ] = None,
    spot: Annotated[
        bool, typer.Option("--spot", help="EC2: spot machines, which AWS may take back.")
    ] = False,
    yes: YesOption = False,
    book: Annotated[
        str, typer.Option(help="EC2: prices where AWS's pricing API gives none (a file, or ec2).")
    ] = "ec2",
    as_json: JsonOption = False,
) -> None:
    """Provision a design's fleet and wait until every machine is ready.

    On EC2 it first shows what the fleet costs an hour and at the most, and asks.
    """
    only_ec2(platform, region=region, ttl_hours=ttl_hours, spot=spot)
    chosen = load_design(design)
    narrator = Narrator(err if as_json else out)
    name = chosen.fleet.experiment
    if platform is PlatformName.local:
        inventory = bring_up(chosen, LocalPlatform(name), narrator)
        if as_json:
            print_json(inventory.model_dump(mode="json"))
            return
        ends = inventory.endpoints
        out.print(f"Entry: {ends.entry}   InfluxDB: {ends.influxdb}")
        out.print(f"`sparecraft down {design}` removes it.")
        return
    rented = Ec2Platform(name, region)
    rental, bill = _rental(chosen, rented, narrator, ttl_hours or TTL_HOURS, spot, book)
    question = f"Make it, for at most {bill.usd_most:.2f} USD?"
    confirm(question, yes)
    rented.rental = rental
    with narrator.step("Provisioning (terraform apply), then EC2's own checks"):
        inventory = rented.up(chosen.directory / "fleet.tfvars", narrator.detail)
    if as_json:
        head = {"cost": _cost_json(bill), "expires": rental.expires.isoformat()}
        print_json({**head, **inventory.model_dump(mode="json")})
        return
    runner = rented.runner()
    out.print(f"Until {rental.expires:%Y-%m-%d %H:%M} UTC: {len(inventory.machines)} machines.")
    out.print(f"aws ssm start-session --region {rented.aws.region} --target {runner}")
    out.print(f"and there: `sparecraft run {design} --platform ec2`", soft_wrap=True)
    out.print(f"`sparecraft down {name} --platform ec2` removes it.", soft_wrap=True)


def _rental(
    design: Design,
    platform: Ec2Platform,
    narrator: Narrator,
    ttl_hours: float,
    spot: bool,
    book: str,
) -> tuple[Rental, Bill]:
    """What will be asked for, and what it costs, shown."""
    now = datetime.now(UTC)
    expires = now + timedelta(hours=ttl_hours)
    with narrator.step("Planning (terraform plan)"):
        platform.check()
        plan = platform.planned(design.directory / "fleet.tfvars", Rental(ttl_hours, expires, spot))
        machines = planned_machines(plan)
    types = {one.instance_type for one in machines}
    quote, remark = quote_of(platform.aws.region, types, book, now.date())
    bill = Bill(machines, quote, ttl_hours)
    _show(bill, narrator, platform.aws, spot)
    if remark:
        narrator.say(remark)
    return Rental(ttl_hours, expires, spot, quote.usd_per_hour), bill


def _show(bill: Bill, narrator: Narrator, aws: Any, spot: bool) -> None:
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("machine", no_wrap=True)
    table.add_column("type", no_wrap=True)
    for column in ("USD/h", "disk GB"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in bill.machines:
        price = "off" if one.standby else f"{bill.quote.usd_per_hour[one.instance_type]:.4f}"
        table.add_row(one.name, one.instance_type, price, f"{one.disk_gb:g}")
    narrator.console.print(table)
    say = narrator.say
    say(f"Account {aws.account()}, region {aws.region}. Prices of {bill.quote.as_of}.")
    say(f"Source: {bill.quote.source}.")
    if spot:
        say("Spot machines cost less than this, never more.")
    say(
        f"[bold]{bill.usd_per_hour:.4f} USD an hour[/bold], with {USD_PER_ADDRESS_HOUR} for each "
        f"public address and {bill.disk_gb:g} GB of disk at {USD_PER_GB_MONTH} a month; "
        f"[bold]at most {bill.usd_most:.2f} USD[/bold] in {bill.ttl_hours:g} h, standbys on all "
        "the time. Traffic between zones (0.01 USD/GB) and out (0.09) is not in it."
    )


def _cost_json(bill: Bill) -> dict[str, Any]:
    return {
        "usd_per_hour": round(bill.usd_per_hour, 6),
        "usd_most": round(bill.usd_most, 4),
        "ttl_hours": bill.ttl_hours,
        "prices_as_of": bill.quote.as_of,
        "source": bill.quote.source,
        "machines": [
            {
                "name": one.name,
                "instance_type": one.instance_type,
                "standby": one.standby,
                "disk_gb": one.disk_gb,
                "usd_per_hour": bill.quote.usd_per_hour[one.instance_type],
            }
            for one in bill.machines
        ],
    }
