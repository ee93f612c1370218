"""The fleet, `fleet.tfvars`: the variables of `infra/stacks/*`, checked as Terraform does."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from experiments.spec.source import Strict, refusal

# The roles that may be a tier, and the role of the backend that each needs.
ROLES: dict[str, str | None] = {
    "apache": None,
    "mediawiki": "mariadb",
    "mariadb": None,
    "memcached": None,
    "redis": None,
    "solr": None,
    "solr-ui": "solr",
}
_CALLING = ("apache", "mediawiki", "solr-ui")
INFLUXDB = "influxdb-1"  # the machine that keeps the telemetry

_NAME = r"^[a-z][a-z0-9-]{0,30}$"
_TIER_NAME = r"^[a-z][a-z0-9]{0,14}$"

Name = Annotated[str, Field(pattern=_NAME)]
TierName = Annotated[str, Field(pattern=_TIER_NAME)]
Policy = Literal[
    "round-robin",
    "random",
    "least-outstanding",
    "peak-ewma",
    "c3",
    "hot-cold",
    "hedge",
    "tad-paper",
    "tad",
]
Port = Annotated[int, Field(ge=1, le=65535)]


def _network(text: str) -> str:
    try:
        ipaddress.IPv4Network(text)
    except ValueError as error:
        raise refusal("an IPv4 network such as 198.18.0.0/16", came=repr(text)) from error
    return text


Network = Annotated[str, AfterValidator(_network)]


class Tier(Strict):
    """Machines of one role that share an arbiter."""

    role: Literal["apache", "mediawiki", "mariadb", "memcached", "redis", "solr", "solr-ui"]
    nodes: Annotated[int, Field(ge=1, le=200)]
    standby: Annotated[int, Field(ge=0, le=200)] = 0
    cpus: Annotated[float, Field(ge=0.1, le=256)]  # a quota is at least 1 ms in each 10
    memory_mb: Annotated[int, Field(ge=64)]
    nic_mbps: Annotated[float, Field(ge=1)]
    disk_mbps: Annotated[float, Field(ge=1)]
    instance_type: Annotated[str, Field(min_length=1)]
    backend: TierName | None = None


class Arbiter(Strict):
    """The proxy in front of a tier."""

    policy: Policy
    replicas: Annotated[int, Field(ge=1)]
    tokens: Annotated[int, Field(ge=1, le=1000)]
    cpus: Annotated[float, Field(ge=0.1, le=256)] = 1.0
    memory_mb: Annotated[int, Field(ge=64)] = 256


class Fleet(Strict):
    """All machines of one experiment."""

    experiment: Name
    scheme: Literal["cloud", "on-prem"]
    tiers: Annotated[dict[TierName, Tier], Field(min_length=1)]
    arbiters: dict[TierName, Arbiter]
    data_cidr: Network = "198.18.0.0/20"
    control_cidr: Network = "198.19.0.0/20"
    entry_port: Port = 18080
    influxdb_port: Port = 18086
    grafana_image: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Fleet:
        for name in self.tiers:
            if name in ("arbiter", "influxdb"):
                raise refusal(
                    "a tier name that no machine of the fleet itself has",
                    came=name,
                    key=f"tiers.{name}",
                    do="Rename the tier.",
                )
            if name not in self.arbiters:
                raise refusal(
                    "an arbiter for every tier",
                    came=f"none for the tier {name}",
                    key=f"arbiters.{name}",
                    do=f"Add arbiters.{name} = {{ policy, replicas, tokens }}.",
                )
        self._check_arbiters()
        self._check_backends()
        return self

    def _check_arbiters(self) -> None:
        for name, arbiter in self.arbiters.items():
            if name not in self.tiers:
                raise refusal(
                    f"one of the tiers {', '.join(self.tiers)}",
                    came=f"the unknown tier {name}",
                    key=f"arbiters.{name}",
                )
            nodes = self.tiers[name].nodes
            if arbiter.replicas > nodes:
                raise refusal(
                    f"at most as many replicas as the tier has nodes ({nodes})",
                    came=str(arbiter.replicas),
                    key=f"arbiters.{name}.replicas",
                )

    def _check_backends(self) -> None:
        for name, tier in self.tiers.items():
            if tier.backend is not None and tier.backend not in self.tiers:
                raise refusal(
                    f"one of the tiers {', '.join(self.tiers)}",
                    came=f"the unknown tier {tier.backend}",
                    key=f"tiers.{name}.backend",
                )
        called = {tier.backend for tier in self.tiers.values()}
        entries = [name for name in self.tiers if name not in called]
        if len(entries) != 1:
            raise refusal(
                "exactly one tier that is nobody's backend (the entry), and no cycle",
                came=", ".join(entries) if entries else "none, the backends form a cycle",
                key="tiers",
                do="Make the tiers a chain: each names the next as its backend.",
            )
        reached = self._chain(entries[0])
        if len(reached) != len(self.tiers):
            missing = ", ".join(name for name in self.tiers if name not in reached)
            raise refusal(
                f"every tier to be reached from the entry tier {entries[0]}",
                came=f"{missing}, in a cycle of backends",
                key="tiers",
                do="Make the tiers a chain: each names the next as its backend.",
            )
        for name, tier in self.tiers.items():
            self._check_roles(name, tier)

    def _check_roles(self, name: str, tier: Tier) -> None:
        backend = None if tier.backend is None else self.tiers[tier.backend].role
        needed = ROLES[tier.role]
        if needed is not None and backend != needed:
            raise refusal(
                f"a backend of role {needed} for role {tier.role}",
                came=backend or "none",
                key=f"tiers.{name}.backend",
            )
        if backend is not None and tier.role not in _CALLING:
            raise refusal(
                f"no backend: role {tier.role} calls none ({', '.join(_CALLING)} do)",
                came=str(tier.backend),
                key=f"tiers.{name}.backend",
            )

    def _chain(self, entry: str) -> tuple[str, ...]:
        chain: list[str] = []
        name: str | None = entry
        while name is not None and name not in chain:
            chain.append(name)
            name = self.tiers[name].backend
        return tuple(chain)

    @property
    def tier_order(self) -> tuple[str, ...]:
        """Tier names from the front (the entry, tier 1) to the back."""
        called = {tier.backend for tier in self.tiers.values()}
        return self._chain(next(name for name in self.tiers if name not in called))

    @property
    def entry_tier(self) -> str:
        """The tier whose arbiter takes the load."""
        return self.tier_order[0]

    def nodes_of(self, tier: str) -> tuple[str, ...]:
        """Names of the active machines of a tier, `web-1` and on; standbys are not among them."""
        return tuple(f"{tier}-{index}" for index in range(1, self.tiers[tier].nodes + 1))

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Every machine that is up after apply, in the order front to back, then the helpers."""
        nodes = [name for tier in self.tier_order for name in self.nodes_of(tier)]
        return (*nodes, *(f"arbiter-{tier}" for tier in self.tier_order), INFLUXDB)
