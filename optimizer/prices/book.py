"""Access to price books: a built-in one by its name, or a file of either kind."""

from __future__ import annotations

from pathlib import Path

from core.config_file import read_toml
from core.errors import InputError
from optimizer.prices import owned, rented
from optimizer.prices.instance import PriceBook

BOOK = Path(__file__).parent / "ec2.toml"
BUILT_IN = {"ec2": BOOK, "on-prem": Path(__file__).parent / "on-prem.toml"}


def price_book(name_or_path: str | Path) -> PriceBook:
    """Return the built-in book "ec2" or "on-prem", or else the book in the file of that path."""
    return load_prices(BUILT_IN.get(str(name_or_path), Path(name_or_path)))


def load_prices(path: Path = BOOK) -> PriceBook:
    """Read a price book. Raises InputError with the key, the expected and the given value.

    A book lists either [instances] and their [usd_per_hour.REGION], or [servers] and [slices].
    """
    if not path.exists():
        raise InputError(
            str(path),
            expected="a price book",
            got="no such file",
            hint="The built-in books are ec2 and on-prem.",
        )
    source = read_toml(path)
    kinds = {"instances", "usd_per_hour", "servers", "slices"} & set(source.values)
    if not kinds:
        expected = "a book with [instances] and [usd_per_hour.REGION], or with [servers]"
        raise InputError(
            str(path),
            expected=expected,
            got="neither (the book is empty)",
            hint="The built-in books show how: optimizer/prices/ec2.toml and on-prem.toml.",
        )
    return owned.owned(source) if kinds & {"servers", "slices"} else rented.rented(source)
