r"""Monthly cost of machines that are bought: reads `on-prem.toml` or a book of the same kind.

A server, with 730 hours in a month, H:

    purchase = price / (12 years)                               without interest
             = price m / (1 - (1 + m)^(-12 years)),  m = interest / 12     (an annuity)
    power    = watts / 1000 * H * pue * usd_per_kwh             watts: the mean draw at the plug
    space    = rack_units * usd_per_rack_unit_month
    staff    = staff_hours_per_server_month * staff_usd_per_hour
    usd_per_month = purchase + power + space + staff

A slice (a container or virtual machine) costs max(cores / server's cores, memory / server's memory)
of its server, because the used part of the scarcer resource cannot be sold to another slice. That
is right if the servers are full; the slices of a half-empty server cost more. A slice or server
that is off costs everything except its power. For a slice that is its share of the server's power,
although an idle server draws a good part of its power anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from core.config_file import ConfigFile, Name, Positive, Strict, check
from core.errors import MOST
from core.units import HOURS_PER_MONTH
from optimizer.prices.head import Day, Head, NotNegative, Text
from optimizer.prices.instance import (
    Instance,
    MonthlyCost,
    PriceBook,
    cheapest_first,
    unknown,
)

REGION = "on-prem"


class Figure(Strict):
    """A figure with its source and date."""

    value: NotNegative
    source: Text
    as_of: Day


class Efficiency(Figure):
    """A power usage effectiveness."""

    value: Annotated[float, Field(ge=1, le=MOST)]


class Shared(Strict):
    """The facts of all servers of a site."""

    usd_per_kwh: Figure
    pue: Efficiency
    usd_per_rack_unit_month: Figure
    staff_usd_per_hour: Figure
    staff_hours_per_server_month: Figure
    interest: Figure | None = None


class Server(Strict):
    """A server: price [USD], service life [years], mean draw [W], height, cores and memory."""

    purchase_usd: Positive
    years: Positive
    watts: Positive
    rack_units: Positive
    cores: Positive
    memory_gb: Positive
    source: Text
    as_of: Day


class Slice(Strict):
    """A part of a server."""

    server: Text
    cores: Positive
    memory_gb: Positive


class Owned(Head):
    """The whole file."""

    shared: Shared
    servers: Annotated[dict[Name, Server], Field(min_length=1)]
    slices: dict[Name, Slice] = Field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """The values of `Shared`; `interest` is a share per year, 0 without a loan."""

    usd_per_kwh: float
    pue: float
    usd_per_rack_unit_month: float
    staff_usd_per_hour: float
    staff_hours_per_server_month: float
    interest: float = 0.0


def monthly_cost(server: Server, site: Site) -> MonthlyCost:
    """Return the cost of owning `server` at `site`, by purpose [USD per month] (see above)."""
    months = 12.0 * server.years
    monthly = site.interest / 12.0
    # expm1 and log1p keep every digit where the interest is next to nothing.
    paid = monthly / -math.expm1(-months * math.log1p(monthly)) if monthly > 0 else 1.0 / months
    return MonthlyCost(
        purchase=server.purchase_usd * paid,
        power=server.watts / 1000.0 * HOURS_PER_MONTH * site.pue * site.usd_per_kwh,
        space=server.rack_units * site.usd_per_rack_unit_month,
        staff=site.staff_hours_per_server_month * site.staff_usd_per_hour,
    )


def owned(source: ConfigFile) -> PriceBook:
    """Return the book in `source`, with the region "on-prem". Raises InputError with the key."""
    book = check(source, Owned)
    site = Site(**{key: figure.value for key, figure in book.shared if figure is not None})
    sizes: dict[str, Server | Slice] = {**book.servers, **book.slices}
    costs = {name: monthly_cost(server, site) for name, server in book.servers.items()}
    for name, server_slice in book.slices.items():
        share = _share(source, name, server_slice, book.servers)
        costs[name] = costs[server_slice.server].share(share)
    instances = [
        Instance(
            name,
            sizes[name].cores,
            sizes[name].memory_gb,
            cost.total / HOURS_PER_MONTH,
            usd_per_month_off=cost.off,
        )
        for name, cost in costs.items()
    ]
    return PriceBook(book.as_of, book.source, {REGION: cheapest_first(instances)}, costs)


def _share(source: ConfigFile, name: str, server_slice: Slice, servers: dict[str, Server]) -> float:
    """Return the share of its server that a slice takes."""
    key = ("slices", name)
    if name in servers:
        raise source.error(*key, expected="a name that no server has", got=repr(name))
    if server_slice.server not in servers:
        raise unknown(source.place(*key, "server"), server_slice.server, servers)
    shares: list[float] = []
    for size in ("cores", "memory_gb"):
        used, available = getattr(server_slice, size), getattr(servers[server_slice.server], size)
        if used > available:
            expected = f"at most {available:g}, {server_slice.server}'s"
            raise source.error(*key, size, expected=expected, got=f"{used:g}")
        shares.append(used / available)
    return max(shares)
