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
class RentedMachine:
    """A machine of a plan; `disk_gb` is the size of its disks [GB]."""

    name: str
    instance_type: str
    standby: bool
    disk_gb: float


@dataclass(frozen=True)
class Quote:
    """USD per hour by instance type, with the date and the source of the prices."""

    usd_per_hour: Mapping[str, float]
    as_of: str
    source: str


@dataclass(frozen=True)
class Bill:
    """The cost of machines [USD]: per hour with the standbys off, and the most until their end."""

    machines: tuple[RentedMachine, ...]
    quote: Quote
    ttl_hours: float

    @property
    def usd_per_hour(self) -> float:
        """The cost of an hour with the standbys off, which keep their addresses and disks."""
        machines = [machine for machine in self.machines if not machine.standby]
        return self._usd_per_hour(machines)

    @property
    def usd_most(self) -> float:
        """The cost until the end of the time to live, with every machine on."""
        return self.ttl_hours * self._usd_per_hour(self.machines)

    @property
    def disk_gb(self) -> float:
        return math.fsum(machine.disk_gb for machine in self.machines)

    def _usd_per_hour(self, machines: Iterable[RentedMachine]) -> float:
        prices = [self.quote.usd_per_hour[machine.instance_type] for machine in machines]
        addresses = USD_PER_ADDRESS_HOUR * len(self.machines)
        return math.fsum([*prices, addresses, self.disk_gb * USD_PER_GB_MONTH / HOURS_PER_MONTH])


def planned_machines(plan: Mapping[str, Any]) -> tuple[RentedMachine, ...]:
    """Return the machines of `terraform show -json`: its instances, and those that its groups keep
    alive.
    """
    resources = list(_resources(plan["planned_values"]["root_module"]))
    templates = {
        resource.get("index"): resource["values"]
        for resource in resources
        if resource["type"] == "aws_launch_template"
    }
    machines = []
    for resource in resources:
        if resource["type"] == "aws_instance":
            machines.append(_rented_machine(resource, resource["values"], templates))
        elif resource["type"] == "aws_autoscaling_group":
            machine = _rented_machine(resource, {}, templates)
            machines += [machine] * int(resource["values"]["max_size"])
    return tuple(sorted(machines, key=lambda machine: machine.name))


def quote_of(region: str, types: Collection[str], book: str, today: date) -> tuple[Quote, str]:
    """Return prices of `types` and a remark: AWS's of today, else those of `book`, with the reason.

    Raises InputError where neither knows a type.
    """
    try:
        prices, remark = today_s_prices(region, types), ""
    except SparecraftError as error:
        prices, remark = {}, f"AWS's pricing API gave no prices ({_first_line(error.got)})."
    missing = sorted(set(types) - set(prices))
    if not missing:
        return Quote(prices, today.isoformat(), SOURCE), remark
    if not remark:
        remark = f"AWS's pricing API knows no price of {', '.join(missing)} in {region}."
    book_quote = _book_quote(price_book(book), region, types)
    return book_quote, f"{remark} These are of {book_quote.as_of}."


def _first_line(text: str) -> str:
    first = text.strip().splitlines()[0] if text.strip() else "no reason"
    return first if len(first) <= 160 else f"{first[:160]}..."


def _book_quote(book: PriceBook, region: str, types: Collection[str]) -> Quote:
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
    children = [_resources(child) for child in module.get("child_modules", [])]
    return [*module.get("resources", []), *(resource for child in children for resource in child)]


def _rented_machine(
    resource: Mapping[str, Any], values: Mapping[str, Any], templates: Mapping[Any, Any]
) -> RentedMachine:
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
        ebs
        for mapping in template.get("block_device_mappings") or []
        for ebs in mapping.get("ebs") or []
    ]
    disk_gb = math.fsum(float(disk.get("volume_size") or _IMAGE_GB) for disk in disks) or _IMAGE_GB
    return RentedMachine(name, instance_type, tags.get("sparecraft:standby") == "true", disk_gb)


def _tags(values: Mapping[str, Any]) -> dict[str, str]:
    return dict(values.get("tags_all") or values.get("tags") or {})


def _disks(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(values.get("root_block_device") or []), *(values.get("ebs_block_device") or [])]
