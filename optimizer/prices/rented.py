"""Reads a book of rented machines: `ec2.toml` or another list of the same kind."""

from __future__ import annotations

from dataclasses import replace

from optimizer.errors import InputError
from optimizer.prices.instance import Instance, PriceBook, unknown
from optimizer.prices.toml import Table

_KEYS = ("as_of", "source", "currency", "instances", "usd_per_hour")
_KIND_KEYS = ("vcpus", "memory_gb", "baseline_share", "usd_per_month_off")


def rented(book: Table) -> PriceBook:
    """The book in `book`. Raises InputError that names the key, what was expected and what came."""
    book.only(*_KEYS)
    kinds = {
        name: Instance(name, *_shape(kind))
        for name, kind in book.table("instances").tables().items()
    }
    regions = {
        region: _region(prices, kinds)
        for region, prices in book.table("usd_per_hour").tables().items()
    }
    return PriceBook(book.day("as_of"), book.text("source"), regions)


def _shape(kind: Table) -> tuple[float, float, float, float, float]:
    """(vcpus, memory_gb, no price yet, baseline_share, usd_per_month_off)."""
    kind.only(*_KIND_KEYS)
    share = kind.positive("baseline_share") if "baseline_share" in kind.raw else 1.0
    if share > 1:
        raise InputError(kind.at("baseline_share"), expected="at most 1", came=str(share))
    off = kind.not_negative("usd_per_month_off")
    return kind.positive("vcpus"), kind.positive("memory_gb"), 0.0, share, off


def _region(prices: Table, kinds: dict[str, Instance]) -> tuple[Instance, ...]:
    found = []
    for name in prices.raw:
        if name not in kinds:
            raise unknown(f"{prices.at(name)} (must be under [instances])", name, kinds)
        found.append(replace(kinds[name], usd_per_hour=prices.positive(name)))
    return tuple(sorted(found, key=lambda i: (i.usd_per_hour, i.name)))
