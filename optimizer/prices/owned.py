r"""What machines that are bought cost a month: reads `on-prem.toml` or a book of the same kind.

A server, with 730 hours in a month, H:

    purchase = price / (12 years)                               without interest
             = price m / (1 - (1 + m)^(-12 years)),  m = interest / 12     (an annuity)
    power    = watts / 1000 * H * pue * usd_per_kwh             watts: the mean draw at the plug
    space    = rack_units * usd_per_rack_unit_month
    staff    = staff_hours_per_server_month * staff_usd_per_hour
    usd_per_month = purchase + power + space + staff

A slice (a container or virtual machine) costs max(cores / server's cores, memory / server's memory)
of its server: what is taken of the scarcer resource cannot be sold to another slice. That holds
where the servers are filled; a half-empty server costs its slices more.
A slice or server that is off is bought, housed and looked after: all but its power. For a slice
that is the server's share, although an idle server draws a good part of its power all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.errors import InputError
from optimizer.prices.instance import HOURS_PER_MONTH, Instance, MonthlyCost, PriceBook
from optimizer.prices.toml import Table

REGION = "on-prem"
_KEYS = ("as_of", "source", "currency", "shared", "servers", "slices")
_SHARED = (
    "usd_per_kwh",
    "pue",
    "usd_per_rack_unit_month",
    "staff_usd_per_hour",
    "staff_hours_per_server_month",
)
_SIZE = ("cores", "memory_gb")
_SERVER = ("purchase_usd", "years", "watts", "rack_units", *_SIZE)


@dataclass(frozen=True)
class Server:
    """A server: price [USD], service life [years], mean draw [W], height, and what it offers."""

    purchase_usd: float
    years: float
    watts: float
    rack_units: float
    cores: float
    memory_gb: float


@dataclass(frozen=True)
class Site:
    """What holds for all servers of a site; `interest` is a share per year, 0 without a loan."""

    usd_per_kwh: float
    pue: float
    usd_per_rack_unit_month: float
    staff_usd_per_hour: float
    staff_hours_per_server_month: float
    interest: float = 0.0


def monthly_cost(server: Server, site: Site) -> MonthlyCost:
    """Cost of owning `server` at `site`, by purpose [USD per month]: the equations above."""
    months = 12.0 * server.years
    monthly = site.interest / 12.0
    paid = monthly / (1.0 - (1.0 + monthly) ** -months) if monthly > 0 else 1.0 / months
    return MonthlyCost(
        purchase=server.purchase_usd * paid,
        power=server.watts / 1000.0 * HOURS_PER_MONTH * site.pue * site.usd_per_kwh,
        space=server.rack_units * site.usd_per_rack_unit_month,
        staff=site.staff_hours_per_server_month * site.staff_usd_per_hour,
    )


def owned(book: Table) -> PriceBook:
    """The book in `book`, with the one region "on-prem". Raises InputError that names the key."""
    book.only(*_KEYS)
    site = _site(book.table("shared"))
    servers = {name: _server(one) for name, one in book.table("servers").tables().items()}
    sizes = {name: (one.cores, one.memory_gb) for name, one in servers.items()}
    costs = {name: monthly_cost(one, site) for name, one in servers.items()}
    slices = book.table("slices").tables() if "slices" in book.raw else {}
    for name, one in slices.items():
        if name in servers:
            raise InputError(one.place, expected="a name that no server has", came=repr(name))
        sizes[name], costs[name] = _slice(one, servers, costs)
    found = [_instance(name, sizes[name], cost) for name, cost in costs.items()]
    ordered = tuple(sorted(found, key=lambda i: (i.usd_per_hour, i.name)))
    return PriceBook(book.day("as_of"), book.text("source"), {REGION: ordered}, costs)


def _site(shared: Table) -> Site:
    shared.only(*_SHARED, "interest")
    figures = {key: _figure(shared, key) for key in (*_SHARED, "interest") if key in shared.raw}
    for key in _SHARED:
        shared.table(key)  # a missing figure is refused by its name
    if figures["pue"] < 1:
        raise InputError(shared.at("pue"), expected="at least 1", came=str(figures["pue"]))
    return Site(**figures)


def _figure(shared: Table, key: str) -> float:
    """A figure with where it is from and since when: { value, source, as_of }."""
    figure = shared.table(key)
    figure.only("value", "source", "as_of")
    figure.text("source")
    figure.day("as_of")
    return figure.not_negative("value") if "value" in figure.raw else figure.positive("value")


def _server(one: Table) -> Server:
    one.only(*_SERVER, "source", "as_of")
    one.text("source")
    one.day("as_of")
    return Server(*(one.positive(key) for key in _SERVER))


def _slice(
    one: Table, servers: Mapping[str, Server], costs: Mapping[str, MonthlyCost]
) -> tuple[tuple[float, float], MonthlyCost]:
    one.only("server", *_SIZE)
    name = one.name_in("server", servers)
    cores, memory_gb = one.positive("cores"), one.positive("memory_gb")
    server = servers[name]
    for key, part, whole in (
        ("cores", cores, server.cores),
        ("memory_gb", memory_gb, server.memory_gb),
    ):
        if part > whole:
            raise InputError(one.at(key), expected=f"at most {whole:g}, {name}'s", came=f"{part:g}")
    share = max(cores / server.cores, memory_gb / server.memory_gb)
    return (cores, memory_gb), costs[name].share(share)


def _instance(name: str, size: tuple[float, float], cost: MonthlyCost) -> Instance:
    return Instance(name, *size, cost.total / HOURS_PER_MONTH, usd_per_month_off=cost.off)
