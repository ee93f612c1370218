"""`sparecraft prices`: prices of machines, with date and source; `refresh` asks AWS."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from typer.core import TyperGroup

from core.terminal import JsonOption, out, print_json, say, told_by_option
from core.units import HOURS_PER_MONTH
from optimizer.prices import Instance, PriceBook, price_book

BookOption = Annotated[str, typer.Option(help="Price book: ec2, on-prem, or a file.")]
REFRESHED = Path("prices/ec2.toml")


class _ListByDefault(TyperGroup):
    """`prices` alone, or with options only, means `prices list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        bare = not args or (args[0].startswith("-") and args[0] != "--help")
        return super().parse_args(ctx, ["list", *args] if bare else args)


group = typer.Typer(cls=_ListByDefault)


@group.callback()
def prices() -> None:
    """Show machine prices with date and source.

    Example: sparecraft prices list --region us-east-1
    """


@group.command(name="list")
def list_(
    book: BookOption = "ec2",
    region: Annotated[str | None, typer.Option(help="One region; default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List machines of the price book, cheapest first.

    `sparecraft prices` alone does the same.

    Example: sparecraft prices list --region us-east-1
    """
    price_list = price_book(book)
    with told_by_option({"region": "--region"}):
        regions = {
            name: price_list.instances(name)
            for name in ([region] if region else price_list.regions)
        }
    if as_json:
        rows = {
            name: [_row(price_list, instance) for instance in group]
            for name, group in regions.items()
        }
        head = {"book": book, "as_of": price_list.as_of, "source": price_list.source}
        print_json({**head, "regions": rows})
        return
    for name, group in regions.items():
        out.print(_owned(price_list, group) if price_list.costs else _rented(name, group))
    say(f"Prices of {price_list.as_of}; {HOURS_PER_MONTH:g} h a month. Source: {price_list.source}")


@group.command()
def refresh(
    region: Annotated[
        list[str] | None, typer.Option(help="A region; may be repeated; default: the book's.")
    ] = None,
    book: BookOption = "ec2",
    output: Annotated[Path, typer.Option(help="The price book to write.")] = (REFRESHED),
    as_json: JsonOption = False,
) -> None:
    """Get today's EC2 prices from AWS as a new price book.

    It has the instance types of the given book, with prices of AWS's pricing API.

    Example: sparecraft prices refresh --region us-east-1 --output ec2.toml
    """
    from optimizer.prices.refresh import refresh as fetch
    from optimizer.prices.refresh import write_book

    old = price_book(book)
    today = datetime.datetime.now(datetime.UTC).date()
    new = fetch(old, region or list(old.regions), today)
    write_book(new.book, output)
    if as_json:
        priced = {name: len(instances) for name, instances in new.book.regions.items()}
        head = {"output": str(output), "as_of": new.book.as_of, "source": new.book.source}
        print_json({**head, "priced": priced, "missing": new.missing})
        return
    for name, instances in new.book.regions.items():
        say(f"{name}: {len(instances)} types priced")
        if new.missing[name]:
            say(f"  not returned, so left out: {', '.join(new.missing[name])}")
    left_out = sorted(set(old.regions) - set(new.book.regions))
    if left_out:
        say(f"Not asked for, so left out: {', '.join(left_out)}")
    say(f"Wrote {output}; use it with --book {output}")


def _row(book: PriceBook, instance: Instance) -> dict[str, object]:
    row: dict[str, object] = {
        "name": instance.name,
        "vcpus": instance.vcpus,
        "memory_gb": instance.memory_gb,
        "usd_per_hour": instance.usd_per_hour,
        "usd_per_month": instance.usd_per_month,
        "usd_per_month_off": instance.usd_per_month_off,
        "baseline_share": instance.baseline_share,
    }
    cost = book.costs.get(instance.name)
    if cost is not None:
        row["usd_per_month_of"] = asdict(cost)
    return row


def _rented(region: str, instances: tuple[Instance, ...]) -> Table:
    table = _table(region, "vCPU", "GiB", "USD/h", "USD/month", "baseline")
    for instance in instances:
        baseline = "" if instance.baseline_share == 1 else f"{instance.baseline_share:.0%}"
        money = (f"{instance.usd_per_hour:.5g}", f"{instance.usd_per_month:.2f}")
        table.add_row(
            instance.name, f"{instance.vcpus:g}", f"{instance.memory_gb:g}", *money, baseline
        )
    return table


def _owned(book: PriceBook, instances: tuple[Instance, ...]) -> Table:
    parts = ("purchase", "power", "space", "staff")
    table = _table("on-prem: USD/month", "cores", "GiB", *parts, "total", "off", "USD/h")
    for instance in instances:
        cost = book.costs[instance.name]
        money = (cost.purchase, cost.power, cost.space, cost.staff, cost.total, cost.off)
        cells = [f"{usd:.2f}" for usd in money]
        size = (f"{instance.vcpus:g}", f"{instance.memory_gb:g}")
        table.add_row(instance.name, *size, *cells, f"{instance.usd_per_hour:.5f}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("type", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
