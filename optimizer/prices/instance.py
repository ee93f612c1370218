"""The price of a machine: the types for both kinds of book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from difflib import get_close_matches

from core.errors import InputError
from core.units import HOURS_PER_MONTH


@dataclass(frozen=True)
class Instance:
    """One instance type, server, or slice of a server, in one region.

    `vcpus` are hardware threads; a slice has a fraction. `baseline_share` is below 1 for burstable
    types only. `usd_per_month_off` is the price of a cold standby of this type: on-premises
    everything except the power. If the book has no such price, as EC2's, a standby costs as much as
    when it is on. A pool in the cloud is not bought: it costs nothing until a crash.
    """

    name: str
    vcpus: float
    memory_gb: float
    usd_per_hour: float
    baseline_share: float = 1.0
    usd_per_month_off: float | None = None
    type: str = ""  # the platform's name for it, where `name` says how it is paid for, too
    purchase: str = "on-demand"
    interruptions_per_year: float = 0.0
    arch: str = "x86_64"
    speed: float = 1.0  # of a core, over the one that processing times are stated for

    @property
    def type_name(self) -> str:
        return self.type or self.name

    @property
    def sustained_cores(self) -> float:
        """Cores that it has permanently, in units of the cores of stated processing times."""
        return self.vcpus * self.baseline_share * self.speed

    @property
    def usd_per_month(self) -> float:
        return self.usd_per_hour * HOURS_PER_MONTH


@dataclass(frozen=True)
class MonthlyCost:
    """The monthly cost of an owned machine [USD], by purpose."""

    purchase: float
    power: float
    space: float
    staff: float

    @property
    def total(self) -> float:
        return self.purchase + self.power + self.space + self.staff

    @property
    def off(self) -> float:
        """The cost of the machine when it is off: everything except the power."""
        return self.total - self.power

    def share(self, share: float) -> MonthlyCost:
        return MonthlyCost(*(share * part for part in astuple(self)))


@dataclass(frozen=True)
class PriceBook:
    """The instances of each region, with the date and the source of the prices.

    `costs` is the breakdown of each owned machine by its name; empty where machines are rented.
    """

    as_of: str
    source: str
    regions: Mapping[str, tuple[Instance, ...]]
    costs: Mapping[str, MonthlyCost] = field(default_factory=dict)

    def instances(self, region: str) -> tuple[Instance, ...]:
        """Return the instances of `region`, cheapest first. Raises InputError if it is unknown."""
        instances = self.regions.get(region)
        if instances is None:
            raise unknown("region", region, self.regions)
        return instances

    def instance(self, region: str, name: str) -> Instance:
        """Return the instance `name` of `region`. Raises InputError with the nearest name."""
        by_name = {instance.name: instance for instance in self.instances(region)}
        if name not in by_name:
            raise unknown(f"instance type in {region}", name, by_name)
        return by_name[name]


def cheapest_first(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    """Return instances in the order of their prices, and of their names for equal ones."""
    return tuple(sorted(instances, key=lambda instance: (instance.usd_per_hour, instance.name)))


def unknown(place: str, got: object, candidates: Iterable[str]) -> InputError:
    """Return the error about an unknown name; it suggests the nearest name, or lists all."""
    names = sorted(candidates)
    nearest = get_close_matches(str(got), names, n=1, cutoff=0.5)
    listed = names if len(names) <= 10 else [*names[:10], f"{len(names) - 10} more"]
    advice = f"Did you mean {nearest[0]}?" if nearest else "Take one of them."
    return InputError(place, expected=f"one of {', '.join(listed)}", got=repr(got), hint=advice)
