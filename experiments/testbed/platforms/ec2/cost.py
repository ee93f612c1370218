"""Cost of a planned fleet on EC2 per hour, and its highest cost in its time to live.

    bill(machines, quote, ttl_hours).usd_most

The highest cost assumes that every machine, standbys too, runs until its time to live ends, with a
public address and its disk. Not included: traffic (between zones 0.01 USD/GB each way, out to the
internet 0.09), and requests to S3, which are a few hundred.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from core.errors import InputError, SparecraftError
from core.units import HOURS_PER_MONTH
from optimizer.prices import PriceBook, price_book
from optimizer.prices.refresh import SOURCE, today_s_prices

# AWS's list of 2025. A GB-month of gp3 is 0.08 USD in us-east-1, 0.088 in eu-west-1, 0.152 in
# sa-east-1, the dearest known here; a public IPv4 address is the same everywhere.
USD_PER_GB_MONTH = 0.16
USD_PER_ADDRESS_HOUR = 0.005
_IMAGE_GB = 8.0  # Debian's image, where a stack names no size


@dataclass(frozen=True)
class Rented:
    """A machine that a plan holds; `disk_gb` is what is kept for it [GB]."""

    name: str
    instance_type: str
    standby: bool
    disk_gb: float


@dataclass(frozen=True)
class Quote:
    """USD per hour by instance type, since when, and who says so."""

    usd_per_hour: Mapping[str, float]
    as_of: str
    source: str


@dataclass(frozen=True)
class Bill:
    """The cost of machines [USD]: an hour with the standbys off, and the most until their end."""

    machines: tuple[Rented, ...]
    quote: Quote
    ttl_hours: float

    @property
    def usd_per_hour(self) -> float:
        """An hour with the standbys off, which keep their addresses and disks."""
        on = [one for one in self.machines if not one.standby]
        return self._usd_per_hour(on)

    @property
    def usd_most(self) -> float:
        """Return the cost until the end of the time to live, with every machine on."""
        return self.ttl_hours * self._usd_per_hour(self.machines)

    @property
    def disk_gb(self) -> float:
        """All disks [GB]."""
        return math.fsum(one.disk_gb for one in self.machines)

    def _usd_per_hour(self, on: Iterable[Rented]) -> float:
        prices = [self.quote.usd_per_hour[one.instance_type] for one in on]
        addresses = USD_PER_ADDRESS_HOUR * len(self.machines)
        return math.fsum([*prices, addresses, self.disk_gb * USD_PER_GB_MONTH / HOURS_PER_MONTH])


def planned_machines(plan: Mapping[str, Any]) -> tuple[Rented, ...]:
    """Return the machines of `terraform show -json`: instances, and those that groups will keep
    alive.
    """
    resources = list(_resources(plan["planned_values"]["root_module"]))
    templates = {
        one.get("index"): one["values"] for one in resources if one["type"] == "aws_launch_template"
    }
    found = []
    for one in resources:
        if one["type"] == "aws_instance":
            found.append(_rented(one, one["values"], templates))
        elif one["type"] == "aws_autoscaling_group":
            machine = _rented(one, {}, templates)
            found += [machine] * int(one["values"]["max_size"])
    return tuple(sorted(found, key=lambda one: one.name))


def quote_of(region: str, types: Collection[str], book: str, today: date) -> tuple[Quote, str]:
    """Prices of `types` and a remark: AWS's of today, else those of `book`, with the reason.

    Raises InputError where neither knows a type.
    """
    try:
        prices, remark = today_s_prices(region, types), ""
    except SparecraftError as error:
        prices, remark = {}, f"AWS's pricing API gave no prices ({_line(error.got)})."
    missing = sorted(set(types) - set(prices))
    if not missing:
        return Quote(prices, today.isoformat(), SOURCE), remark
    if not remark:
        remark = f"AWS's pricing API knows no price of {', '.join(missing)} in {region}."
    held = _of_book(price_book(book), region, types)
    return held, f"{remark} These are of {held.as_of}."


def _line(said: str) -> str:
    first = said.strip().splitlines()[0] if said.strip() else "no reason"
    return first if len(first) <= 160 else f"{first[:160]}..."


def _of_book(book: PriceBook, region: str, types: Collection[str]) -> Quote:
    try:
        prices = {name: book.instance(region, name).usd_per_hour for name in sorted(types)}
    except SparecraftError as error:
        raise InputError(
            "prices of the fleet",
            expected=f"a price of each of {', '.join(sorted(types))} in {region}",
            got=f"none in the book of {book.as_of}: {error}",
            hint="`sparecraft prices refresh` writes a book of today's; give it with --book.",
        ) from error
    return Quote(prices, book.as_of, book.source)


def _resources(module: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    below = [_resources(child) for child in module.get("child_modules", [])]
    return [*module.get("resources", []), *(one for group in below for one in group)]


def _rented(
    resource: Mapping[str, Any], values: Mapping[str, Any], templates: Mapping[Any, Any]
) -> Rented:
    template = templates.get(resource.get("index"), {})
    instance_type = values.get("instance_type") or template.get("instance_type")
    if not instance_type:
        raise InputError(
            f"the plan's {resource['address']}",
            expected="an instance type of its own or of the launch template of the same key",
            got="none",
            hint="The stack and this version do not fit: run `make setup`.",
        )
    tags = _tags(values) or _tags(template)
    name = tags.get("sparecraft:machine") or resource["address"]
    disks = [*_disks(values)] or [
        ebs for one in template.get("block_device_mappings") or [] for ebs in one.get("ebs") or []
    ]
    disk_gb = math.fsum(float(one.get("volume_size") or _IMAGE_GB) for one in disks) or _IMAGE_GB
    return Rented(name, instance_type, tags.get("sparecraft:standby") == "true", disk_gb)


def _tags(values: Mapping[str, Any]) -> dict[str, str]:
    return dict(values.get("tags_all") or values.get("tags") or {})


def _disks(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(values.get("root_block_device") or []), *(values.get("ebs_block_device") or [])]
