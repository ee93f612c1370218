"""[[prices.purchase]] and [[prices.speeds]] of plan.toml: purchase options of a rented machine
other than on demand, and machines whose cores have another speed.

A reserved machine or one under a savings plan is the same machine at a lower price, which is paid
if it runs or not. A spot machine is still cheaper, and is interrupted at times: each interruption
is a further crash, and interruptions together (`common_cause`) must be stated. Each option adds
every type once more, and the planner chooses. Discounts are the user's own: no book has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Strict, Text, refusal
from core.errors import LEAST, InputError
from core.units import CRASHES_PER_YEAR_MOST
from optimizer.prices import Instance, PriceBook
from optimizer.prices.instance import cheapest_first


class Purchase(Strict):
    """One way to pay. `committed`: a machine that is off costs as much as one that is on."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,18}$")]
    discount: Annotated[float, Field(gt=0, lt=1)]
    committed: bool = False
    interruptions_per_year: Annotated[float, Field(ge=0, le=CRASHES_PER_YEAR_MOST)] = 0.0
    instance_types: Annotated[list[str], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _can_be(self) -> Purchase:
        if self.name == "on-demand":
            raise refusal("a name of its own: on-demand is the book's price", got="on-demand")
        if 0 < self.interruptions_per_year < LEAST:
            raise refusal("0, or a rate", got=f"{self.interruptions_per_year:g}")
        if self.committed and self.interruptions_per_year:
            raise refusal("committed or interrupted: a spot machine is not committed", got="both")
        return self


class Speed(Strict):
    """Types whose cores are faster or slower than the one that processing_s is stated for."""

    instance_types: Annotated[list[str], Field(min_length=1)]
    per_core: Annotated[float, Field(ge=0.1, le=10)]
    source: Text


def with_speeds(book: PriceBook, region: str, speeds: Sequence[Speed]) -> PriceBook:
    """Return the book with these speeds of the region's types.

    Raises: InputError for a type that is stated twice.
    """
    speed_of: dict[str, float] = {}
    for speed in speeds:
        for name in speed.instance_types:
            if name in speed_of:
                raise InputError("prices.speeds", expected="each type once", got=f"{name} again")
            speed_of[name] = speed.per_core
    if not speed_of:
        return book
    instances = tuple(
        replace(instance, speed=speed_of.get(instance.name, 1.0))
        for instance in book.instances(region)
    )
    return replace(book, regions={**book.regions, region: instances})


def with_purchases(book: PriceBook, region: str, ways: Sequence[Purchase]) -> PriceBook:
    """Return the book with every type of the region once more for each way to pay.

    Raises: InputError for a name given twice.
    """
    if not ways:
        return book
    names = [way.name for way in ways]
    if len(set(names)) < len(names):
        raise InputError("prices.purchase", expected="names of their own", got=", ".join(names))
    types = book.instances(region)
    instances = cheapest_first(
        [*types, *(instance for way in ways for instance in _discounted(types, way))]
    )
    return replace(book, regions={**book.regions, region: instances})


def _discounted(types: Sequence[Instance], way: Purchase) -> Iterator[Instance]:
    for instance in types:
        if way.instance_types is None or instance.name in way.instance_types:
            discounted = replace(
                instance,
                name=f"{instance.name}@{way.name}",
                type=instance.name,
                purchase=way.name,
                usd_per_hour=instance.usd_per_hour * (1.0 - way.discount),
                interruptions_per_year=way.interruptions_per_year,
            )
            yield (
                replace(discounted, usd_per_month_off=discounted.usd_per_month)
                if way.committed
                else discounted
            )
