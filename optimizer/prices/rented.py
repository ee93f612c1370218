"""Books of rented machines: `ec2.toml` or another list of the same kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.config_file import ConfigFile, Name, Positive, Share, Strict, check
from optimizer.prices.head import Head, NotNegative
from optimizer.prices.instance import Instance, PriceBook, cheapest_first, unknown

_Prices = Annotated[dict[Name, Positive], Field(min_length=1)]


class Kind(Strict):
    """An entry of [instances]."""

    vcpus: Positive
    memory_gb: Positive
    baseline_share: Share = 1.0
    usd_per_month_off: NotNegative | None = None
    arch: Literal["x86_64", "arm64"] = "x86_64"


class Rented(Head):
    """The whole file."""

    instances: Annotated[dict[Name, Kind], Field(min_length=1)]
    usd_per_hour: Annotated[dict[Name, _Prices], Field(min_length=1)]


def rented(source: ConfigFile) -> PriceBook:
    """Return the book in `source`. Raises InputError with the key, expected and given value."""
    book, regions = check(source, Rented), {}
    for region, prices in book.usd_per_hour.items():
        instances = []
        for name, usd in prices.items():
            if name not in book.instances:
                place = source.place("usd_per_hour", region, name)
                raise unknown(f"{place} (must be under [instances])", name, book.instances)
            kind = book.instances[name].model_dump()
            instances.append(Instance(name, usd_per_hour=usd, **kind))
        regions[region] = cheapest_first(instances)
    return PriceBook(book.as_of, book.source, regions)
