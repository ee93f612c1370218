"""What a tier may be (type, nodes, mechanism, spares, replicas) and what follows from it.

An option is complete by itself: cost, unavailability, utilisation and collision probability depend
on nothing but the option and the amplification `upstream` (the product of the replicas above it).
Only the page's latency depends on several tiers at once. `table` holds a tier's options in columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.availability import (
    FailureRates,
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.errors import require_count, require_positive, require_share
from optimizer.latency import Station, TierLatency
from optimizer.prices import Instance

MECHANISMS = ("ara", "pf")
_GAIN = 1e-11  # less than the numerical error of the models
_FLOOR = 1e-13  # unavailability below which more spares are not told apart


@dataclass(frozen=True)
class Limits:
    """Bounds of the search. Nodes and spares of a tier count together against max_nodes."""

    max_nodes: int = 20
    max_replicas: int = 3
    max_utilisation: float = 0.7
    max_collision: float = 0.5

    def __post_init__(self) -> None:
        require_count("limits.max_nodes", self.max_nodes, least=1)
        require_count("limits.max_replicas", self.max_replicas, least=1)
        require_positive("limits.max_utilisation", self.max_utilisation)
        require_share("limits.max_utilisation", self.max_utilisation)
        require_share("limits.max_collision", self.max_collision)


@dataclass(frozen=True)
class TierDemand:
    """A tier as the planner needs it. Rates are at r = 1 everywhere."""

    name: str
    latency: TierLatency
    request_per_s: float
    memory_mb: float
    connection_per_s: float = 0.0  # of what takes a token: requests, or connections
    token_hold_s: float | None = None
    mechanisms: tuple[str, ...] = MECHANISMS
    instance_types: tuple[str, ...] | None = None  # None: all of the region


@dataclass(frozen=True)
class Option:
    """One way to build a tier. `needed` nodes carry the load; the others cover failures."""

    tier: str
    upstream: int
    replicas: int
    instance: Instance
    needed: int
    mechanism: str  # ara | pf
    extra: int
    usd_per_month: float
    unavailability: float
    utilisation: float
    collision: float

    @property
    def nodes(self) -> int:
        """Active machines."""
        return self.needed + (self.extra if self.mechanism == "ara" else 0)

    @property
    def spares(self) -> int:
        """Cold machines in the pool."""
        return self.extra if self.mechanism == "pf" else 0

    def station(self, demand: TierDemand, policy: str) -> Station:
        """The queueing station of the needed nodes (extra and spare ones are not counted on)."""
        return Station(
            tier=demand.latency,
            servers=self.needed,
            cores=self.instance.vcpus,
            replicas=self.replicas,
            policy=policy,
            request_per_s=demand.request_per_s * self.upstream,
        )


@dataclass(frozen=True)
class Degraded:
    """What one tier at a time has to stand: `nodes_down` active nodes gone, `limping` more slow.

    Of the active nodes left, as many serve as carry the load on a good day: extra nodes of ara
    stand in for lost ones, beyond that they are not counted on. Spares of a pool do not count:
    the condition holds until fail-over has brought one up. A limping server keeps `limp_speed` of
    its capacity, and nobody has noticed it yet.
    """

    nodes_down: int = 0
    limping: int = 0
    limp_speed: float = 1.0

    def servers(self, option: Option) -> int:
        """Servers that are up, limping ones included."""
        return min(option.needed, option.nodes - self.nodes_down)

    def utilisation(self, option: Option) -> float:
        """Of what is left, in [0, inf]; infinite where the replicas cannot be placed."""
        left = self.servers(option)
        capacity = left - self.limping * (1.0 - self.limp_speed)
        if left < max(option.replicas, self.limping, 1) or capacity <= 0:
            return math.inf
        return option.utilisation * option.needed / capacity


@dataclass(frozen=True)
class Redundancy:
    """A mechanism with its extra nodes and what it leaves of unavailability."""

    mechanism: str
    extra: int
    unavailability: float


class Covers:
    """Redundancies per number of needed nodes and mechanism; computed once for all tiers and types.

    In the cloud a crashed node is replaced by itself: passive failover there is active route
    anywhere without extra nodes, and no second choice.
    """

    def __init__(self, rates: FailureRates, scheme: str, limits: Limits) -> None:
        self._rates, self._scheme, self._limits = rates, scheme, limits
        self._known: dict[tuple[int, str], tuple[Redundancy, ...]] = {}

    def of(self, needed: int, mechanisms: Sequence[str]) -> list[Redundancy]:
        """With ever more extra nodes, as long as they help. Both mechanisms, where they differ."""
        if self._scheme == "cloud" and "ara" in mechanisms:
            mechanisms = ("ara",)
        return [cover for mechanism in mechanisms for cover in self._of(needed, mechanism)]

    def _of(self, needed: int, mechanism: str) -> tuple[Redundancy, ...]:
        key = (needed, mechanism)
        if key not in self._known:
            self._known[key] = tuple(self._falling(needed, mechanism))
        return self._known[key]

    def _falling(self, needed: int, mechanism: str) -> Iterator[Redundancy]:
        best = before = math.inf
        for extra, value in enumerate(self._unavailabilities(needed, mechanism)):
            if value < best:
                best = value
                yield Redundancy(mechanism, extra, value)
            if value < _FLOOR or (value < 0.5 and before - value < _GAIN):
                return  # fail-over alone is left: more spares cost and do not help
            before = value

    def _unavailabilities(self, needed: int, mechanism: str) -> Iterator[float]:
        rates, most = self._rates, self._limits.max_nodes - needed
        if mechanism == "ara":
            for extra in range(most + 1):
                yield active_route_anywhere(
                    needed, extra, rates, scheme=self._scheme
                ).unavailability
        elif self._scheme == "cloud":
            yield passive_failover(needed, None, rates, scheme="cloud").unavailability
        elif rates.repair_s is None and not rates.standby_fraction:
            for found in passive_failover_by_pool(needed, most, rates):
                yield found.unavailability
        else:
            for pool in range(most + 1):
                yield passive_failover(needed, pool, rates).unavailability


def fitting(
    instances: Sequence[Instance], demand: TierDemand, headroom_mb: float
) -> list[Instance]:
    """Instances that the tier allows and with enough memory, without those that another one beats
    or equals in everything."""
    allowed = demand.instance_types
    enough = [
        i
        for i in instances
        if i.memory_gb * 1024 >= demand.memory_mb + headroom_mb
        and (allowed is None or i.name in allowed)
    ]
    kept: list[Instance] = []
    for one in sorted(enough, key=lambda i: (i.usd_per_hour, -i.sustained_cores, -i.vcpus, i.name)):
        if not any(_beats(other, one) for other in kept):
            kept.append(one)
    return kept


def _beats(one: Instance, other: Instance) -> bool:
    return (
        one.vcpus >= other.vcpus
        and one.sustained_cores >= other.sustained_cores
        and one.usd_per_hour <= other.usd_per_hour
        and usd_when_off(one) <= usd_when_off(other)
    )


def usd_when_off(instance: Instance) -> float:
    """USD a month of a cold standby: the book's price of a machine that is off, else the whole."""
    return instance.usd_per_month_off or instance.usd_per_month
