"""Options of a tier (type, nodes, mechanism, standbys, replicas) and their figures.

An option is independent of others: cost, unavailability, utilisation and collision probability
depend only on the option and on the amplification `upstream` (the product of the replicas above
it). Only the page's latency depends on several tiers at once. `table` holds a tier's options in
columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Share, Strict, refusal
from core.vocabulary import MECHANISMS, Mechanism, Scheme
from optimizer.availability import FailureRates, sizes
from optimizer.latency import Station, TierLatency
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.state import NO_STATE, TierState
from optimizer.prices import Instance
from optimizer.replication import COLLISION_MAX

NODES_MAX = 200  # a tier then has 20,000 ways to be redundant, each with its availability


class Limits(Strict):
    """Bounds of the search. Nodes and standbys of a tier count together against max_nodes."""

    max_nodes: Annotated[int, Field(ge=1, le=NODES_MAX)] = 20
    max_replicas: Annotated[int, Field(ge=1, le=NODES_MAX)] = 3
    max_utilisation: Share = 0.7
    max_collision: Annotated[float, Field(ge=0, le=1)] = COLLISION_MAX


@dataclass(frozen=True)
class TierDemand:
    """The planner's input of a tier. Rates are with r = 1 in all tiers."""

    name: str
    latency: TierLatency
    request_per_s: float
    memory_mb: float
    connection_per_s: float = 0.0  # rate of the events that take a token: requests, or connections
    token_hold_s: float | None = None
    tokens: int = 1  # of a server in the measured run
    mechanisms: Sequence[str] = MECHANISMS
    state: TierState = NO_STATE  # its data, and who serves after a loss
    instance_types: Sequence[str] | None = None  # None: all of the region
    variant: str | None = None  # the chosen build of its software, if there is a choice
    crash_more_per_year: float = 0.0  # by transient faults, beside the machine's own
    card_s: float = 0.0  # how long a copy keeps its machine's network card
    min_nodes: int = 1  # active machines at the least
    max_replicas: int | None = None  # None: as the limits
    arch: Sequence[str] = ("x86_64",)  # that its software is built for
    disk_usd: float = 0.0  # a month, of the disk of each machine
    traffic_usd: float = 0.0  # a month between zones, of one copy of each request at r = 1

    def usd_traffic(self, upstream: int, replicas: int) -> tuple[float, float]:
        """Return the cost of traffic between zones [USD a month]: fixed, and per active machine.

        A read goes to r machines or to a certain one, a write to each."""
        usd, law = self.traffic_usd * upstream, self.latency
        read = (1.0 - law.unspread) * replicas + law.one_share
        return usd * read, usd * law.write_share

    def usd_beside(
        self, upstream: int, replicas: int, nodes: int, standby: int
    ) -> tuple[float, float]:
        """Return the cost of the machines' disks and of their traffic between zones [USD/month]."""
        fixed, per_node = self.usd_traffic(upstream, replicas)
        return (nodes + standby) * self.disk_usd, fixed + per_node * nodes

    def usd_beside_of(self, option: Option) -> tuple[float, float]:
        """Return `usd_beside` of an option."""
        return self.usd_beside(option.upstream, option.replicas, option.nodes, option.standby)

    @property
    def has_state(self) -> bool:
        """True if the plan takes data or writes into account."""
        state = self.state
        return bool(self.latency.unspread or state.data_gb or state.primary)

    def load(self, instance: Instance, upstream: int, replicas: int) -> float:
        """Return the load of a single machine that serves all reads of the tier.

        It is that of its cores or of its card, whichever is higher. Neighbours take cores (sPARE
        Eq. 4, 4.2).
        """
        read = self.request_per_s * (1.0 - self.latency.unspread)
        return read * upstream * replicas * self._busy_s(instance)

    def written(self, instance: Instance, upstream: int) -> float:
        """Return the load on each machine of writes, and of reads that go to a certain machine."""
        return self.request_per_s * self.latency.unspread * upstream * self._busy_s(instance)

    def _busy_s(self, instance: Instance) -> float:
        cores = instance.sustained_cores * self.latency.left_share
        return max(self.latency.processing_s / cores, self.card_s)


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
    written: float = 0.0  # the part of the utilisation that does not fall with more nodes

    @property
    def nodes(self) -> int:
        """Active machines."""
        return self.needed + (self.extra if self.mechanism == Mechanism.ara else 0)

    @property
    def standby(self) -> int:
        """Cold machines in the pool."""
        return self.extra if self.mechanism == Mechanism.pf else 0

    @property
    def machines(self) -> int:
        """All machines, standbys included."""
        return self.needed + self.extra

    def station(self, demand: TierDemand, policy: str) -> Station:
        """Return the queueing station of the needed nodes, without extra and standby ones."""
        return Station(
            tier=demand.latency,
            servers=self.needed,
            cores=self.instance.vcpus,
            replicas=self.replicas,
            policy=policy,
            request_per_s=demand.request_per_s * self.upstream,
        )


class Degraded(Strict):
    """The losses that one tier at a time has to stand.

    `nodes_down` active nodes are gone and `limping` more are slow. Of the active nodes that are
    left, at most `needed` serve: extra nodes of ara replace lost ones, and do not add capacity.
    Standbys of a pool do not count: the condition holds until fail-over has brought one up. A
    limping server keeps `limp_speed` of its capacity, and nobody has noticed it yet.
    """

    nodes_down: Annotated[int, Field(ge=0, le=NODES_MAX)] = 0
    limping: Annotated[int, Field(ge=0, le=1)] = 0
    limp_speed: Share = 1.0

    @model_validator(mode="after")
    def _check_fault(self) -> Degraded:
        if not self.nodes_down and not self.limping:
            raise refusal("nodes_down or limping of at least 1", got="neither")
        if self.limping and "limp_speed" not in self.model_fields_set:
            raise refusal("the share of its speed that is left", got="nothing", key="limp_speed")
        if not self.limping and "limp_speed" in self.model_fields_set:
            raise refusal("it beside limping = 1", got="no limping server", key="limp_speed")
        return self

    def servers(self, option: Option) -> int:
        """Return the number of servers that are up, limping ones included."""
        return min(option.needed, option.nodes - self.nodes_down)

    def utilisation(self, option: Option) -> float:
        """Return the utilisation of the remaining machines, in [0, inf]; inf if the replicas do not
        fit.
        """
        left = self.servers(option)
        capacity = left - self.limping * (1.0 - self.limp_speed)
        if left < max(option.replicas, self.limping, 1) or capacity <= 0:
            return math.inf
        read = (option.utilisation - option.written) * option.needed
        slow = option.written / self.limp_speed if self.limping else 0.0
        return max((read + option.written * left) / capacity, slow)


@dataclass(frozen=True)
class Redundancy:
    """A mechanism with its extra nodes, and the unavailability that remains."""

    mechanism: str
    extra: int
    unavailability: float


class Covers:
    """Redundancies per number of needed nodes and mechanism; computed once for all tiers and types.

    The cloud replaces a crashed node by itself. So passive failover there equals active route
    anywhere without extra nodes, and is no second choice. A tier has to do without `nodes_down`
    active nodes (`Degraded`), and `min_nodes` have to be active: up to there every extra node is
    kept, whatever it does to availability. `check` is called before each size, and may end the
    computation by an exception.
    """

    def __init__(
        self,
        rates: FailureRates,
        scheme: str,
        limits: Limits,
        nodes_down: int = 0,
        check: Check = unbounded,
        state: TierState | None = None,
        min_nodes: int = 1,
    ) -> None:
        self._rates, self._limits, self._state = rates, limits, state or NO_STATE
        self._scheme = self._state.scheme(scheme)
        self._nodes_down, self._min_nodes, self._check = nodes_down, min_nodes, check
        self._known: dict[tuple[int, str, FailureRates, int], tuple[Redundancy, ...]] = {}

    def replica_key(self, _replicas: int) -> int:
        """Return a key that is equal for numbers of replicas with equal redundancies: here all."""
        return 1

    def of(
        self, needed: int, mechanisms: Sequence[str], instance: Instance, replicas: int = 1
    ) -> list[Redundancy]:
        """Return all covers that can be optimal, with both mechanisms if they differ."""
        rates = rates_of(self._rates, instance)
        if self._scheme == Scheme.cloud and Mechanism.ara in mechanisms:
            mechanisms = (Mechanism.ara,)
        return [
            cover
            for mechanism in mechanisms
            for cover in self._covers_of(needed, mechanism, rates, self.replica_key(replicas))
        ]

    def _covers_of(
        self, needed: int, mechanism: str, rates: FailureRates, replicas: int
    ) -> tuple[Redundancy, ...]:
        key = (needed, mechanism, rates, replicas)
        if key not in self._known:
            self._known[key] = tuple(self._find_worthwhile(*key))
        return self._known[key]

    def _find_worthwhile(
        self, needed: int, mechanism: str, rates: FailureRates, _replicas: int
    ) -> Iterator[Redundancy]:
        """Yield each redundancy that is required, or better than all with fewer extra nodes.

        Better: more available. Required: see `_required_extra`.
        """
        best, most = math.inf, self._limits.max_nodes - needed
        spared = self._required_extra(needed, mechanism)
        tried = most if self._state.dies_with_its_copies else spared  # each copy counts
        values = sizes(needed, most, rates, mechanism=mechanism, scheme=self._scheme, tried=tried)
        self._check()
        for extra, value in enumerate(values):
            self._check()
            lost = self._state.lost(
                needed, mechanism, extra, rates, self._scheme, value.unavailability_most
            )
            if lost < best or extra <= spared:
                yield Redundancy(mechanism, extra, lost)
            best = min(best, lost)

    def _required_extra(self, needed: int, mechanism: str) -> int:
        """Return the extra nodes that are required apart from availability; -1 for none."""
        if mechanism != Mechanism.ara:
            return -1
        return max(self._nodes_down, self._min_nodes - needed)


def rates_of(
    rates: FailureRates, instance: Instance | None = None, demand: TierDemand | None = None
) -> FailureRates:
    """Return the rates of machines of this kind in this tier.

    A machine that is taken away counts as crashed, and so does one that a transient fault stopped.
    A machine that joins gets the tier's data first.
    """
    more = instance.interruptions_per_year if instance is not None else 0.0
    more += demand.crash_more_per_year if demand is not None else 0.0
    if more:
        rates = replace(rates, crash_per_year=rates.crash_per_year + more)
    return rates if demand is None else demand.state.rates(rates)


def with_room(
    instances: Sequence[Instance], demand: TierDemand, headroom_mb: float
) -> list[Instance]:
    """Return the instances that the tier allows and that have enough memory."""
    allowed = demand.instance_types
    return [
        i
        for i in instances
        if i.memory_gb * 1024 >= demand.memory_mb + headroom_mb
        and (allowed is None or i.type_name in allowed)
        and i.arch in demand.arch
    ]


def fitting(
    instances: Sequence[Instance], demand: TierDemand, headroom_mb: float
) -> list[Instance]:
    """Return the instances of `with_room` that no other one beats or equals in everything."""
    enough = with_room(instances, demand, headroom_mb)
    undominated: list[Instance] = []
    for instance in sorted(
        enough, key=lambda i: (i.usd_per_hour, -i.sustained_cores, -i.vcpus, i.name)
    ):
        if not any(_beats(rival, instance) for rival in undominated):
            undominated.append(instance)
    return undominated


def _beats(instance: Instance, rival: Instance) -> bool:
    return (
        instance.vcpus >= rival.vcpus
        and instance.sustained_cores >= rival.sustained_cores
        and instance.usd_per_hour <= rival.usd_per_hour
        and usd_when_off(instance) <= usd_when_off(rival)
        and instance.interruptions_per_year <= rival.interruptions_per_year
    )


def usd_when_off(instance: Instance) -> float:
    """Return the price of a cold standby [USD/month]: that of a machine that is off, if known."""
    off = instance.usd_per_month_off
    return instance.usd_per_month if off is None else off
