"""What a tier may be (type, nodes, mechanism, spares, replicas) and what follows from it.

An option is complete by itself: cost, unavailability, utilisation and collision probability depend
on nothing but the option and the amplification `upstream` (the product of the replicas above it).
Only the page's latency depends on several tiers at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.availability import (
    Availability,
    FailureRates,
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.latency import Station, TierLatency
from optimizer.prices import Instance
from optimizer.replication import collision_probability

_GAIN = 1e-11  # less than the numerical error of the models
_FLOOR = 1e-13  # unavailability below which more spares are not told apart


@dataclass(frozen=True)
class Limits:
    """Bounds of the search. Nodes and spares of a tier count together against nodes_max."""

    max_nodes: int = 20
    max_replicas: int = 3
    max_utilisation: float = 0.7
    max_collision: float = 0.5


@dataclass(frozen=True)
class TierDemand:
    """A tier as the planner needs it. `request_per_s` is at r = 1 everywhere."""

    name: str
    latency: TierLatency
    request_per_s: float
    memory_mb: float
    cores_per_vcpu: float = 1.0  # measured speed of a core against one vCPU


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
        """The queueing station of the needed nodes (spares are not counted on)."""
        return Station(
            tier=demand.latency,
            servers=self.needed,
            cores=self.instance.vcpus * demand.cores_per_vcpu,
            replicas=self.replicas,
            policy=policy,
            request_per_s=demand.request_per_s * self.upstream,
        )


@dataclass(frozen=True)
class Redundancy:
    """A mechanism with its extra nodes and what it leaves of unavailability."""

    mechanism: str
    extra: int
    unavailability: float


class Covers:
    """Redundancies per number of needed nodes, none dominated; computed once for all types."""

    def __init__(self, rates: FailureRates, scheme: str, limits: Limits) -> None:
        self._rates, self._scheme, self._limits = rates, scheme, limits
        self._known: dict[int, tuple[Redundancy, ...]] = {}

    def of(self, needed: int) -> tuple[Redundancy, ...]:
        if needed not in self._known:
            found = list(self._all(needed))
            best = math.inf
            kept = []
            for item in sorted(found, key=lambda c: (c.extra, c.unavailability, c.mechanism)):
                if item.unavailability < best:
                    kept.append(item)
                    best = item.unavailability
            self._known[needed] = tuple(kept)
        return self._known[needed]

    def _all(self, needed: int) -> Iterator[Redundancy]:
        mechanisms = ("ara",) if self._scheme == "cloud" else ("ara", "pf")
        for mechanism in mechanisms:
            before = math.inf
            for extra in range(self._limits.max_nodes - needed + 1):
                value = self._availability(needed, extra, mechanism).unavailability
                yield Redundancy(mechanism, extra, value)
                if value < _FLOOR or (value < 0.5 and before - value < _GAIN):
                    break  # fail-over alone is left: more spares cost and do not help
                before = value

    def _availability(self, needed: int, extra: int, mechanism: str) -> Availability:
        if mechanism == "ara":
            return active_route_anywhere(needed, extra, self._rates, scheme=self._scheme)
        if self._rates.repair_s is None:
            pool = self._limits.max_nodes - needed
            return passive_failover_by_pool(needed, pool, self._rates)[extra]
        return passive_failover(needed, extra, self._rates)


def fitting(
    instances: Sequence[Instance], demand: TierDemand, headroom_mb: float
) -> list[Instance]:
    """Instances with enough memory, without those that another one beats or equals in
    everything."""
    enough = [i for i in instances if i.memory_gb * 1024 >= demand.memory_mb + headroom_mb]
    kept: list[Instance] = []
    for one in sorted(enough, key=lambda i: (i.usd_per_hour, -i.sustained_cores, -i.vcpus, i.name)):
        if not any(k.vcpus >= one.vcpus and k.sustained_cores >= one.sustained_cores for k in kept):
            kept.append(one)
    return kept


def tier_options(
    demand: TierDemand,
    upstream: int,
    replicas: int,
    instances: Sequence[Instance],
    covers: Covers,
    limits: Limits,
) -> list[Option]:
    """All stable options of a tier at this amplification.

    Unstable: the needed nodes' undisturbed utilisation, or that under the measured interference, is
    at least 1 (sPARE Eq. 4; tokens are dimensioned afterwards by Eq. 6 and so never bind).
    """
    options = []
    for instance in instances:
        for needed in range(replicas, limits.max_nodes + 1):
            used = _utilisation(demand, instance, needed, upstream, replicas)
            if used >= 1.0:
                continue
            met = collision_probability(needed, upstream, replicas)
            for cover in covers.of(needed):
                options.append(
                    Option(
                        tier=demand.name,
                        upstream=upstream,
                        replicas=replicas,
                        instance=instance,
                        needed=needed,
                        mechanism=cover.mechanism,
                        extra=cover.extra,
                        usd_per_month=(needed + cover.extra) * instance.usd_per_month,
                        unavailability=cover.unavailability,
                        utilisation=used,
                        collision=met,
                    )
                )
    return options


def _utilisation(
    demand: TierDemand, instance: Instance, needed: int, upstream: int, replicas: int
) -> float:
    """Sustained load over sustained capacity, both with the measured interference (sPARE 4.2)."""
    tier = demand.latency
    left = 1.0 - tier.interference_share * (1.0 - tier.gamma)
    cores = instance.sustained_cores * demand.cores_per_vcpu
    load = demand.request_per_s * upstream * replicas * tier.processing_s
    return load / (needed * cores * left)
