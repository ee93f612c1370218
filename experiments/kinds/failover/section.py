"""`[failover]`: the servers that fail, the rate of failures, and the strategies of clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from core.config_file import Positive, Strict, refusal
from core.json_object import JsonObject
from core.tolerances import U_FLOOR
from experiments.design import Check, Design
from experiments.design.contracts import CPU, FAULT_KINDS, KINDS, OneOf
from experiments.design.fleet import TierName
from experiments.kinds.failover.service import MODULE, adapter_of

Name = Literal["primary", "cached", "open", "watched", "hedged", "heartbeat", "arbiter"]
Seconds = Annotated[float, Field(gt=0, le=600)]


class Strategy(Strict):
    """The way clients of an arm find another server."""

    strategy: Name
    """`primary`: ask for the primary; `cached`: a list of all servers; `open`: open connections
    to all; `watched`: the same, pushed by the naming service; `hedged`: a late read also goes
    to a second server; `heartbeat`: heartbeats detect failures; `arbiter`: the tier's
    arbiter."""
    wait_s: Annotated[float, Field(ge=0, le=60)] = 0.0
    """With `primary`: wait before asking [s]."""


class Strike(Strict):
    """The fault of the server that is in use, or of machines of another tier in turn."""

    kind: Annotated[str, OneOf((*FAULT_KINDS, CPU))]
    """The fault, or neighbours on the processor."""
    parameters: JsonObject = Field(default_factory=dict)
    """Parameters of the kind."""
    tier: TierName | None = None
    """Tier whose machines are struck in turn; none: the server in use."""
    for_s: Seconds | None = None
    """Length [s]; none: until another server is ordered."""
    servers: Annotated[int, Field(ge=1, le=100)] = 1
    """Servers struck at once; the first is the one in use."""

    @model_validator(mode="after")
    def _ends(self) -> Strike:
        if self.tier is not None and self.for_s is None:
            got = f"tier = {self.tier!r} alone"
            raise refusal("for_s, as nobody orders another machine of it", got=got, key="for_s")
        if self.tier is not None and self.servers > 1:
            got = f"{self.servers} and tier = {self.tier!r}"
            raise refusal("1, as machines of a tier are struck in turn", got=got, key="servers")
        return self

    @property
    def name(self) -> str:
        """Name in tables: "net.limp (factor 100)", "process.crash on names"."""
        parameters = ", ".join(f"{key} {value}" for key, value in self.parameters.items())
        where = f" on {self.tier}" if self.tier else ""
        where += f" on {self.servers} servers" if self.servers > 1 else ""
        return f"{self.kind} ({parameters}){where}" if parameters else f"{self.kind}{where}"


class CrashRate(Strict):
    """The yearly rate of a fault, for a strategy's gain."""

    per_year: Positive
    """Occurrences a server and year."""
    source: Annotated[str, Field(min_length=1)]
    """Source of the rate."""


class FailoverSection(Strict):
    """Each block is an arm under one of the faults with one number of clients: every `every_s` the
    server that client 0 uses is struck, until the replication manager has another one started,
    or what the fault says."""

    tier: str
    """Tier of the servers."""
    strategies: dict[str, Strategy]
    """Strategy by arm."""
    faults: Annotated[tuple[Strike, ...], Field(strict=False, min_length=1)] = (
        Strike(kind="process.crash"),
    )
    """Faults of servers, each in blocks of its own."""
    calls: Literal["reads", "all"] = "reads"
    """Methods that clients call: one that reads, or all; each change is checked to be made once."""
    clients: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] = (1,)
    """Numbers of clients, each in blocks of its own."""
    strikes: Annotated[int, Field(ge=1, le=1000)] = 20
    """Faults of a block."""
    every_s: Seconds = 4.0
    """Time between two strikes [s]."""
    phase_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Largest random delay of a strike, such as a round of the replication manager [s]."""
    held_max_s: Seconds = 12.0
    """Longest fault, if nobody orders another server [s]."""
    warm_up_s: Annotated[float, Field(ge=0, le=60)] = 2.0
    """Pause before the first strike and after each, in which clients find their servers [s]."""
    gap_ms: Annotated[float, Field(ge=0, le=1000)] = 2.0
    """Time between a reply and the client's next call [ms]."""
    patience_s: Seconds = 2.0
    """Time-out of a reply or a connection [s]."""
    give_up_s: Seconds = 30.0
    """Time after which a call is lost [s]."""
    bound_s: Seconds = 1.0
    """Tested bound [s]; the paper's is 1 s."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Confidence of intervals and bounds."""
    rates: dict[str, CrashRate] = Field(default_factory=dict)
    """Yearly rates by fault, for a strategy's gain in availability; without them the gain is not
    computed."""
    availability: Annotated[float, Field(gt=0, lt=1 - U_FLOOR)] = 0.9999999
    """Availability for which servers are counted with each strategy."""

    def block_s(self) -> float:
        """Return the length of a block's requests, if all goes well [s]."""
        return self.warm_up_s + self.strikes * (self.every_s + self.phase_s / 2)

    def cases(self) -> list[tuple[Strike, int]]:
        return [(fault, clients) for fault in self.faults for clients in self.clients]

    def check(self, design: Design) -> None:
        experiment, tiers = design.experiment, design.fleet.tiers
        arms = set(experiment.arms)
        names = [fault.name for fault in self.faults]
        other_tiers = {fault.tier for fault in self.faults if fault.tier is not None}
        servers_max = max(fault.servers for fault in self.faults)
        nodes = tiers[self.tier].nodes if self.tier in tiers else servers_max
        has_arbiter = {strategy.strategy == "arbiter" for strategy in self.strategies.values()}
        checks: Iterable[Check] = (
            ("tier", self.tier not in tiers, f"one of {', '.join(tiers)}", self.tier),
            ("strategies", set(self.strategies) != arms, f"those of {', '.join(sorted(arms))}",
             ", ".join(self.strategies) or "none"),
            ("faults", len(set(names)) < len(names), "each fault once", ", ".join(names)),
            ("faults", not other_tiers <= set(tiers), f"tiers of {', '.join(tiers)}",
             str(other_tiers)),
            ("faults", servers_max > nodes, f"at most the tier's {nodes} servers at once",
             str(servers_max)),
            ("strategies", True in has_arbiter and self.tier not in design.fleet.arbiters,
             "an arbiter in front of the tier, as a strategy wants it", "none"),
            ("rates", not set(self.rates) <= set(names), f"of {', '.join(names)}",
             ", ".join(self.rates)),
            ("clients", not all(0 < count <= 100 for count in self.clients),
             "from 1 to 100 clients", ", ".join(map(str, self.clients))),
        )  # fmt: skip
        checks_with_key = (
            (f"failover.{key}", is_wrong, expected, got) for key, is_wrong, expected, got in checks
        )
        design.refuse(checks_with_key)
        for fault in self.faults:
            try:
                KINDS[fault.kind].model.model_validate(fault.parameters)
            except ValidationError as error:
                expected = f"the parameters of {fault.kind}"
                raise design.error("failover.faults", expected, str(fault.parameters)) from error
        role = design.roles[tiers[self.tier].role]
        if not (role.directory / MODULE).is_file():
            expected = f"a tier whose role has {MODULE} in its folder"
            raise design.error("failover.tier", expected, f"role {tiers[self.tier].role}")
        adapter_of(role.directory)
