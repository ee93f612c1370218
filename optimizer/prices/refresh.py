"""Today's EC2 on-demand prices, from AWS's pricing API, as a new price book.

A price book has one day and one source, so the new one has only the prices that the API returned:
other regions are left out, and a type without a price of today is listed, not kept.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import EnvironmentMissing, InputError
from optimizer.prices.book import load_prices
from optimizer.prices.instance import Instance, PriceBook, cheapest_first

API_REGION = "us-east-1"  # the pricing API is served there for all regions
SOURCE = "AWS Price List API (pricing:GetProducts), on-demand, Linux, shared tenancy, no licence"
_FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


@dataclass(frozen=True)
class Refreshed:
    """The new book, and by region the types of the old one that the API did not return."""

    book: PriceBook
    missing: Mapping[str, tuple[str, ...]]


def refresh(old: PriceBook, regions: Sequence[str], today: datetime.date) -> Refreshed:
    """Return the types of `old` at today's prices in `regions` [USD/h].

    Credentials, endpoint and number of attempts are boto3's: environment variables, profile or
    role. The caller needs pricing:GetProducts.
    Raises: EnvironmentMissing without credentials, network or permission; InputError for a region
    without any of the types, and for an answer that is not a price.
    """
    if old.costs:
        raise InputError("book", expected="a book of EC2 prices", got="one of owned servers")
    kinds = {instance.name: instance for region in old.regions.values() for instance in region}
    instances_by_region = {region: _region(region, kinds) for region in dict.fromkeys(regions)}
    missing = {
        region: tuple(sorted(set(kinds) - {instance.name for instance in instances}))
        for region, instances in instances_by_region.items()
    }
    return Refreshed(PriceBook(today.isoformat(), SOURCE, instances_by_region), missing)


def today_s_prices(region: str, names: Collection[str]) -> dict[str, float]:
    """Return today's on-demand prices of the types `names` in `region`, by name [USD/h].

    A type that the API does not know in the region is left out. Raises as `refresh` does.
    """
    prices = dict[str, float]()
    for name in sorted(names):
        prices.update(_prices(region, [name], {"instanceType": name}))
    return prices


def write_book(book: PriceBook, path: Path) -> None:
    """Write `book` as TOML atomically: `path` is always the old or the complete new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_toml(book))
        temporary.chmod(0o644)
        load_prices(temporary)  # what cannot be read must not replace what can
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _region(region: str, kinds: Mapping[str, Instance]) -> tuple[Instance, ...]:
    prices = _prices(region, kinds)
    if not prices:
        raise InputError(
            _api(region),
            expected="a price for at least one type of the book",
            got="none",
            hint="Is it the code of a region, such as eu-west-1?",
        )
    return cheapest_first(replace(kinds[name], usd_per_hour=usd) for name, usd in prices.items())


def _prices(
    region: str, names: Collection[str], filters: Mapping[str, str] | None = None
) -> dict[str, float]:
    prices = dict[str, float]()
    for product in _products(region, filters or {}):
        name, usd_per_hour = _price(region, product, names)
        if name is None:
            continue
        if prices.setdefault(name, usd_per_hour) != usd_per_hour:
            got = f"{prices[name]} and {usd_per_hour}"
            raise InputError(f"{_api(region)}: {name}", expected="one price", got=got)
    return prices


def _products(region: str, filters: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield every product of the region that passes the filters, over all pages of the answer."""
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

    config = Config(retries={"mode": "standard"}, connect_timeout=10, read_timeout=30)
    fields = {"regionCode": region, **_FILTERS, **filters}
    term_filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()
    ]
    try:
        with closing(boto3.client("pricing", region_name=API_REGION, config=config)) as client:
            pages = client.get_paginator("get_products")
            for page in pages.paginate(ServiceCode="AmazonEC2", Filters=term_filters):
                for text in page["PriceList"]:
                    yield _parse(region, text)
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise EnvironmentMissing(
            _api(region),
            expected="an answer to pricing:GetProducts",
            got=f"{type(error).__name__}: {str(error).rstrip('.')}",
            hint="It needs a network and AWS credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, a role) "
            "that may call it. No price was changed.",
        ) from error


def _parse(region: str, text: str) -> Mapping[str, Any]:
    try:
        product = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(_api(region), expected="products in JSON", got=str(error)) from error
    if not isinstance(product, dict):
        raise InputError(_api(region), expected="a product", got=repr(text)[:80])
    return product


def _price(
    region: str, product: Mapping[str, Any], names: Collection[str]
) -> tuple[str | None, float]:
    """Return (type, US dollars per hour); (None, 0) for a type that is not in the book."""
    try:
        name = product["product"]["attributes"]["instanceType"]
        if name not in names:
            return None, 0.0
        dimensions = [
            dimension
            for term in product["terms"]["OnDemand"].values()
            for dimension in term["priceDimensions"].values()
            if dimension["unit"] == "Hrs"
        ]
        prices = {float(dimension["pricePerUnit"]["USD"]) for dimension in dimensions}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        description = product.get("product")
        got = f"{type(error).__name__} {error} in {str(description)[:120]}"
        raise InputError(_api(region), expected="a price in USD per hour", got=got) from error
    if len(prices) != 1 or not all(0 < price < math.inf for price in prices):
        got = ", ".join(str(price) for price in sorted(prices)) or "none"
        raise InputError(f"{_api(region)}: {name}", expected="one price above 0", got=got)
    return name, prices.pop()


def _api(region: str) -> str:
    return f"AWS pricing API, {region}"


def _toml(book: PriceBook) -> str:
    """Return the book in the form that `rented` reads. JSON's strings are TOML's basic strings."""
    kinds = {instance.name: instance for region in book.regions.values() for instance in region}
    lines = [
        "# Written by `sparecraft prices refresh`.",
        f"as_of = {json.dumps(book.as_of)}",
        f"source = {json.dumps(book.source)}",
        'currency = "USD"',
        "",
        "[instances]",
    ]
    for name, instance in sorted(kinds.items()):
        extra = (
            f", baseline_share = {instance.baseline_share!r}" if instance.baseline_share < 1 else ""
        )
        if instance.usd_per_month_off is not None:
            extra += f", usd_per_month_off = {instance.usd_per_month_off!r}"
        if instance.arch != "x86_64":
            extra += f", arch = {json.dumps(instance.arch)}"
        size = f"vcpus = {instance.vcpus!r}, memory_gb = {instance.memory_gb!r}"
        lines.append(f"{json.dumps(name)} = {{ {size}{extra} }}")
    for region, instances in book.regions.items():
        lines += ["", f"[usd_per_hour.{json.dumps(region)}]"]
        lines += [
            f"{json.dumps(instance.name)} = {instance.usd_per_hour!r}" for instance in instances
        ]
    return "\n".join(lines) + "\n"
