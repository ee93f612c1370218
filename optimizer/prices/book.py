"""The way to a price book: a built-in one by its name, or a file of either kind."""

from __future__ import annotations

from pathlib import Path

from optimizer.errors import InputError
from optimizer.prices import owned, rented
from optimizer.prices.instance import PriceBook
from optimizer.prices.toml import read

BOOK = Path(__file__).parent / "ec2.toml"
BUILT_IN = {"ec2": BOOK, "on-prem": Path(__file__).parent / "on-prem.toml"}


def price_book(name_or_path: str | Path) -> PriceBook:
    """The built-in book "ec2" or "on-prem", or else the book in the file of that path."""
    return load_prices(BUILT_IN.get(str(name_or_path), Path(name_or_path)))


def load_prices(path: Path = BOOK) -> PriceBook:
    """Read a price book. Raises InputError that names the key, what was expected and what came.

    A book lists either [instances] and their [usd_per_hour.REGION], or [servers] and [slices].
    """
    table = read(path)
    kinds = {"instances", "usd_per_hour", "servers", "slices"} & set(table.raw)
    if not kinds:
        expected = "a book with [instances] and [usd_per_hour.REGION], or with [servers]"
        raise InputError(str(path), expected=expected, came="neither (the book is empty)")
    if table.raw.get("currency") != "USD":
        raise InputError(table.at("currency"), expected="USD", came=repr(table.raw.get("currency")))
    if kinds & {"servers", "slices"}:
        return owned.owned(table)
    return rented.rented(table)
