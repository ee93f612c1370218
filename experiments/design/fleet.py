"""The fleet, `fleet.tfvars`: the variables of `infra/stacks/*`, checked as Terraform does."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from core.config_file import Problem, Strict, refusal
from experiments.design.contracts import PROTOCOLS, TOKENS
from experiments.design.roles import Port, Promotion, Roles

INFLUXDB = "influxdb-1"  # the machine that keeps the telemetry
INFLUXDB_CPUS = 1.0  # its cap in infra/stacks/local
MACHINES_MAX = 100  # of a tier

NAME = r"^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$"
Name = Annotated[str, Field(pattern=NAME)]
TierName = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")]
Cpus = Annotated[float, Field(ge=0.1, le=256)]  # a quota is at least 1 ms in each 10
MemoryMb = Annotated[int, Field(ge=64)]
Tokens = Annotated[int, Field(ge=TOKENS.minimum, le=TOKENS.maximum)]


def _check_network(text: str) -> str:
    try:
        ipaddress.IPv4Network(text)
    except ValueError as error:
        raise refusal("an IPv4 network such as 198.18.0.0/16", got=repr(text)) from error
    return text


Network = Annotated[str, AfterValidator(_check_network)]


class Tier(Strict):
    """Machines of one role, which share an arbiter where they have one."""

    role: str
    """Role: a folder of the design's roles/ or of infra/roles."""
    calls: Annotated[tuple[TierName, ...], Field(strict=False)] = ()
    """Tiers that it calls."""
    nodes: Annotated[int, Field(ge=1, le=MACHINES_MAX)]
    """Active machines."""
    standby: Annotated[int, Field(ge=0, le=MACHINES_MAX)] = 0
    """Cold standbys, powered on when a machine fails."""
    cpus: Cpus
    """Cores of each machine."""
    memory_mb: MemoryMb
    """Memory of each machine [MB]."""
    nic_mbps: Annotated[float, Field(ge=1)]
    """Speed of the network card [Mbit/s]."""
    disk_mbps: Annotated[float, Field(ge=1)]
    """Speed of the disk [MB/s]."""
    instance_type: Annotated[str, Field(min_length=1)] | None = None
    """Instance type on EC2."""
    image: Annotated[str, Field(min_length=1)] | None = None
    """Stock image instead of the role's own."""


class Arbiter(Strict):
    """The proxy in front of a tier; its policy and replicas are the arms'."""

    tokens: Tokens = 1
    """Requests that a server gets at a time."""
    cpus: Cpus = 1.0
    """Cores of its machine."""
    memory_mb: MemoryMb = 256
    """Memory of its machine [MB]."""


class Fleet(Strict):
    """All machines of one experiment."""

    experiment: Name
    """Name of machines and results."""
    scheme: Literal["cloud", "on-prem"]
    """A failed machine is made anew (cloud), or repaired and replaced by a standby (on-prem)."""
    tiers: Annotated[dict[TierName, Tier], Field(min_length=1, max_length=10)]
    """Tiers, by name."""
    arbiters: dict[TierName, Arbiter] = Field(default_factory=dict)
    """Arbiters, by tier."""
    entries: Annotated[tuple[TierName, ...], Field(strict=False, min_length=1)] | None = None
    """Tiers that take load; by default all that no tier calls."""
    data_cidr: Network | None = None
    """Range of the data network; by default a free one."""
    control_cidr: Network | None = None
    """Range of the control network."""
    entry_port: Port | None = None
    """Port of the first entry on this host; by default a free one."""
    entry_ports: dict[TierName, Port] = Field(default_factory=dict)
    """Port of each entry, by tier."""
    influxdb_port: Port | None = None
    """Port of InfluxDB."""
    grafana_port: Port | None = None
    """Port of Grafana."""
    grafana_image: str | None = None
    """Image of Grafana."""

    @property
    def entry_tiers(self) -> tuple[str, ...]:
        """The tiers that take load: those of `entries`, else all that no tier calls, by name."""
        if self.entries is not None:
            return self.entries
        called = {name for tier in self.tiers.values() for name in tier.calls}
        return tuple(sorted(set(self.tiers) - called))

    @property
    def entry_tier(self) -> str:
        """The first tier that takes load."""
        return self.entry_tiers[0]

    @property
    def tier_order(self) -> tuple[str, ...]:
        """Tier names from front to back: each after its callers, else in the file's order."""
        order: list[str] = []
        while len(order) < len(self.tiers):
            remaining = [name for name in self.tiers if name not in order]
            called = {name for caller in remaining for name in self.tiers[caller].calls}
            order.append(next(name for name in remaining if name not in called))
        return tuple(order)

    @property
    def arbiter_order(self) -> tuple[str, ...]:
        """The tiers that have an arbiter, from the front to the back."""
        return tuple(name for name in self.tier_order if name in self.arbiters)

    def nodes_of(self, tier: str) -> tuple[str, ...]:
        """Return the names of the active machines of a tier, from `web-1` on, without standbys."""
        return tuple(f"{tier}-{index}" for index in range(1, self.tiers[tier].nodes + 1))

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Every machine that runs after apply: tiers from front to back, then the helpers."""
        nodes = [name for tier in self.tier_order for name in self.nodes_of(tier)]
        arbiters = [f"arbiter-{tier}" for tier in self.arbiter_order]
        return (*nodes, *arbiters, INFLUXDB)


def replicas_max(fleet: Fleet, tier: str, roles: Roles) -> int:
    """Return the most replicas that a read of the tier can have: 1 if its protocol does not
    distinguish reads from writes.
    """
    spec = fleet.tiers[tier]
    return spec.nodes if PROTOCOLS[roles[spec.role].protocol].reads else 1


def promoters_of(fleet: Fleet, tier: str, roles: Roles) -> tuple[str, ...]:
    """Return the tiers that the tier calls so that they promote another of its machines."""
    spec = fleet.tiers[tier]
    promotion = roles[spec.role].promotion
    if promotion is None:
        return ()
    return tuple(name for name in spec.calls if fleet.tiers[name].role == promotion.role)


def promotion_of(fleet: Fleet, tier: str, roles: Roles) -> Promotion | None:
    """Return the promotion of the tier's machines, by others or by themselves; None without one."""
    promotion = roles[fleet.tiers[tier].role].promotion
    if promotion is None or promotion.role is None or promoters_of(fleet, tier, roles):
        return promotion
    return None


def planned_tiers(fleet: Fleet, roles: Roles) -> tuple[str, ...]:
    """Return the tiers that a plan has, in the file's order: all but those that only promote."""
    promoters = {name for tier in fleet.tiers for name in promoters_of(fleet, tier, roles)}
    return tuple(name for name in fleet.tiers if name not in promoters)


def fleet_problems(fleet: Fleet, roles: Roles) -> Iterator[Problem]:
    """Yield the conflicts of well-formed tiers with each other and with their roles."""
    unknown = [*_unknown_tiers(fleet), *_unknown_roles(fleet, roles)]
    yield from unknown
    yield from _size_problems(fleet)
    if unknown:
        return
    yield from _call_problems(fleet, roles)
    yield from _arbiter_problems(fleet, roles)
    yield from _shape_problems(fleet)


def _unknown_tiers(fleet: Fleet) -> Iterator[Problem]:
    names_of_key: list[tuple[tuple[str, ...], Sequence[str]]] = [
        *((("tiers", name, "calls"), tier.calls) for name, tier in fleet.tiers.items()),
        *((("arbiters", name), (name,)) for name in fleet.arbiters),
        (("entries",), fleet.entries or ()),
        (("entry_ports",), tuple(fleet.entry_ports)),
    ]
    for key, names in names_of_key:
        for name in names:
            if name not in fleet.tiers:
                expected = f"one of the tiers {', '.join(fleet.tiers)}"
                yield Problem(key, expected, f"the unknown tier {name}")
        if len(set(names)) != len(names):
            yield Problem(key, "each tier once", ", ".join(names))


def _unknown_roles(fleet: Fleet, roles: Roles) -> Iterator[Problem]:
    helpers = [name for name, role in roles.items() if not role.tier]
    for name, tier in fleet.tiers.items():
        if name in helpers:
            yield Problem(
                ("tiers", name),
                f"a tier name other than those of the fleet's own machines, {', '.join(helpers)}",
                name,
                "Rename the tier.",
            )
        if tier.role not in roles or tier.role in helpers:
            known = ", ".join(role for role in roles if role not in helpers)
            yield Problem(
                ("tiers", name, "role"),
                f"one of {known}",
                tier.role,
                "Correct it, or add the folder roles/NAME with a role.json to the design.",
            )


def _size_problems(fleet: Fleet) -> Iterator[Problem]:
    for name, tier in fleet.tiers.items():
        if tier.nodes + tier.standby > MACHINES_MAX:
            expected = f"at most {MACHINES_MAX} machines with the standbys"
            yield Problem(("tiers", name, "nodes"), expected, f"{tier.nodes} + {tier.standby}")
    ports = (fleet.entry_port, fleet.influxdb_port, fleet.grafana_port)
    port_list = [*fleet.entry_ports.values(), *(port for port in ports if port is not None)]
    if len(set(port_list)) != len(port_list):
        got = ", ".join(map(str, port_list))
        yield Problem(
            ("influxdb_port",), "a port of its own for each entry, InfluxDB and Grafana", got
        )


def _call_problems(fleet: Fleet, roles: Roles) -> Iterator[Problem]:
    for name, tier in fleet.tiers.items():
        role, callee_roles = roles[tier.role], [fleet.tiers[callee].role for callee in tier.calls]
        key, got = ("tiers", name, "calls"), ", ".join(callee_roles) or "none"
        call_indices = [role.call_of(callee_role) for callee_role in callee_roles]
        if None in call_indices:
            known = [role_name for call in role.calls for role_name in call.roles or ("any",)]
            yield Problem(
                key, f"tiers of what a {tier.role} calls: {', '.join(known) or 'nothing'}", got
            )
        for index, call in enumerate(role.calls):
            expected_tier = (
                f"a tier of {' or '.join(call.roles) or 'any role'} for its role {tier.role}"
            )
            if call.required and index not in call_indices:
                yield Problem(key, expected_tier, got)
            if call_indices.count(index) > 1:
                yield Problem(key, f"only {expected_tier}", got)


def _arbiter_problems(fleet: Fleet, roles: Roles) -> Iterator[Problem]:
    for name in fleet.arbiters:
        role = fleet.tiers[name].role
        if not roles[role].arbiter:
            yield Problem(
                ("arbiters", name),
                f"no arbiter: its role {role} can have none",
                "one",
                "Take it out.",
            )


def _shape_problems(fleet: Fleet) -> Iterator[Problem]:
    """Yield cycles of calls, and tiers that no entry reaches."""
    entries = fleet.entry_tiers
    reachable = _find_reachable(fleet, entries)
    for name in fleet.tiers:
        if name in _find_reachable(fleet, fleet.tiers[name].calls):
            expected = "calls that come to an end"
            yield Problem(("tiers", name, "calls"), expected, f"a cycle back to {name}")
        elif name not in reachable:
            yield Problem(
                ("entries",),
                f"every tier to be called, directly or not, from an entry ({', '.join(entries)})",
                f"{name}, which none of them reaches",
                "Add it to entries, or to the calls of a tier.",
            )


def _find_reachable(fleet: Fleet, start: Sequence[str]) -> set[str]:
    reachable: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in reachable:
            reachable.add(name)
            todo += fleet.tiers[name].calls
    return reachable
