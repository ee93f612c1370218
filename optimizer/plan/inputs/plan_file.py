"""plan.toml: the limits of a plan, and the service in figures if no run measured it.

`example.toml` has the whole schema, with comments. With a results folder, a figure in plan.toml
replaces the measured one; all others are the run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from core.config_file import (
    ConfigFile,
    Positive,
    Problem,
    Seconds,
    Share,
    Strict,
    Text,
    check,
    named_twice,
    read_toml,
    refusal,
)
from core.errors import MOST, InputError
from core.json_object import JsonObject
from core.units import TIME_S_MOST
from core.vocabulary import MECHANISMS, MechanismText, SchemeText
from optimizer.availability.unused_rates import unused_rates
from optimizer.latency.station import POLICIES
from optimizer.plan.inputs.case import Slo
from optimizer.plan.inputs.demand import CV2_RANGE
from optimizer.plan.inputs.disks_and_traffic import crossing_problems, priced_problems
from optimizer.plan.inputs.domains import Domain, problems_of
from optimizer.plan.inputs.hosts import Host
from optimizer.plan.inputs.hosts import problems_of as host_problems
from optimizer.plan.inputs.integrity import DeclaredVariant, TransientFaults
from optimizer.plan.inputs.limping import with_measured_limping
from optimizer.plan.inputs.load import Load
from optimizer.plan.inputs.purchase import Purchase, Speed
from optimizer.plan.inputs.remedy import Remedy
from optimizer.plan.inputs.schedule import DeclaredSchedule
from optimizer.plan.inputs.schedule import problems_of as schedule_problems
from optimizer.plan.inputs.state import problems_of as state_problems
from optimizer.plan.solve.options import NODES_MAX, Limits
from optimizer.plan.solve.state import Kept
from optimizer.uncertainty import rates_from

Rate = Annotated[float, Field(ge=1, le=MOST)]
_EXPERIMENT = r"^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$"
_TIER = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
Role = Annotated[str, Field(pattern=_TIER)]  # the name of its folder

# keys of a tier, and the field of the fitted tier that each replaces
FIGURES: Mapping[str, str] = {
    "requests_per_copy": "requests_per_copy",
    "connections_per_copy": "connections_per_copy",
    "processing_s": "processing_s",
    "kbit_per_copy": "card_kbit",
    "cv2": "service_cv2",
    "interference_share": "interference_share",
    "gamma": "gamma",
    "token_hold_s": "token_hold_s",
    "writes": "write_share",
    "reads_of_one": "one_share",
}
MACHINE = ("role", "memory_mb", "nic_mbps", "disk_mbps")


def _check_policy(policy: str) -> str:
    if policy not in POLICIES:
        raise refusal(f"one of {', '.join(POLICIES)}", got=repr(policy))
    return policy


class Prices(Strict):
    """The source of prices, by the scheme, unless stated; ways to pay; types of other speed; disks
    and what crosses zones."""

    book: Text | None = None
    region: Text | None = None
    disk_usd_per_gb_month: Positive | None = None
    iops_usd_per_month: Positive | None = None
    traffic_usd_per_gb: Positive | None = None
    crossing: Share | None = None
    purchase: list[Purchase] = Field(default_factory=list)
    speeds: list[Speed] = Field(default_factory=list)


class Present(Strict):
    """A tier's machines as they are today: what a plan is compared with."""

    instance_type: Text
    nodes: Annotated[int, Field(ge=1, le=NODES_MAX)]
    standby: Annotated[int, Field(ge=0, le=NODES_MAX)] = 0
    replicas: Annotated[int, Field(ge=1, le=NODES_MAX)] = 1

    @model_validator(mode="after")
    def _can_be(self) -> Present:
        if self.replicas > self.nodes:
            raise refusal(f"at most nodes ({self.nodes})", got=f"{self.replicas}", key="replicas")
        return self


class DeclaredTier(Strict):
    """One of [[tiers]]; what the file does not say is None."""

    name: Annotated[str, Field(pattern=_TIER)]
    role: Role | None = None
    requests_per_copy: Positive | None = None
    connections_per_copy: Positive | None = None
    processing_s: Seconds | None = None
    kbit_per_copy: Positive | None = None
    capacity: Text | None = None
    workload: Text | None = None
    cv2: Annotated[float, Field(ge=CV2_RANGE[0], le=CV2_RANGE[1])] | None = None
    memory_mb: Annotated[int, Field(ge=64, le=MOST)] | None = None
    nic_mbps: Rate | None = None
    disk_mbps: Rate | None = None
    interference_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    gamma: Share | None = None
    run_s: Annotated[float, Field(ge=0, le=TIME_S_MOST)] | None = None
    token_hold_s: Seconds | None = None
    mechanisms: Annotated[list[MechanismText], Field(min_length=1)] | None = None
    instance_types: Annotated[list[Text], Field(min_length=1)] | None = None
    arch: Annotated[list[Literal["x86_64", "arm64"]], Field(min_length=1)] | None = None
    min_nodes: Annotated[int, Field(ge=1, le=NODES_MAX)] | None = None
    state: Kept | None = None
    data_gb: Positive | None = None
    data_in: Literal["memory", "disk"] | None = None
    disk_gb: Positive | None = None
    iops: Positive | None = None
    writes: Annotated[float, Field(ge=0, le=1)] | None = None
    reads_of_one: Annotated[float, Field(ge=0, le=1)] | None = None
    primary: bool | None = None
    promote_s: Seconds | None = None
    present: Present | None = None
    variants: list[DeclaredVariant] = Field(default_factory=list)

    @property
    def values(self) -> JsonObject:
        """The content of the file."""
        return self.model_dump(exclude_none=True, exclude={"variants"})


class Declared(Strict):
    """A whole plan.toml. None: the file does not say."""

    experiment: Annotated[str, Field(pattern=_EXPERIMENT)] | None = None
    scheme: SchemeText | None = None
    arrival_per_s: Positive | None = None
    policy: Annotated[str, AfterValidator(_check_policy)] | None = None
    prices: Prices = Prices()
    slo: Slo
    load: Load | None = None
    schedule: DeclaredSchedule | None = None
    limits: Limits = Limits()
    rates: JsonObject = Field(default_factory=dict)
    remedies: list[Remedy] = Field(default_factory=list)
    domains: list[Domain] = Field(default_factory=list)
    hosts: list[Host] = Field(default_factory=list)
    transient_faults: TransientFaults | None = None
    tiers: list[DeclaredTier] = Field(default_factory=list)


@dataclass(frozen=True)
class PlanFile:
    """A plan.toml: its content, and the line of each key.

    `remarks`: the figures that were taken from the runs it names.
    """

    source: ConfigFile
    stated: Declared
    remarks: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.source.path.parent

    def having(self, **changes: Any) -> PlanFile:
        """Return the same file with other values; its keys keep their lines."""
        return replace(self, stated=self.stated.model_copy(update=changes))


def read_plan(path: Path) -> PlanFile:
    """Read and check `path`. Raises InputError that names the file, the line and the key."""
    return check_plan(read_toml(path))


def check_plan(source: ConfigFile) -> PlanFile:
    """Return the plan.toml of these values. Raises InputError."""
    source, remarks = with_measured_limping(source)
    stated = check(source, Declared)
    source.refuse_all(_problems(stated))
    try:
        rates_from(stated.rates, "rates")
    except InputError as error:
        key = error.place.split(".")
        raise source.error(*key, expected=error.expected, got=error.got) from error
    _check_effect(source, stated)
    limits = stated.limits
    if "max_replicas" not in limits.model_fields_set:
        fewer = min(limits.max_replicas, limits.max_nodes)
        stated = stated.model_copy(
            update={"limits": limits.model_copy(update={"max_replicas": fewer})}
        )
    return PlanFile(source, stated, remarks)


def _check_effect(source: ConfigFile, stated: Declared) -> None:
    """Refuse rates that change nothing, with the file's own scheme and mechanisms."""
    used = {m for tier in stated.tiers for m in tier.mechanisms or MECHANISMS} or set(MECHANISMS)
    source.refuse_all(
        Problem(("rates", key), expected, "it without effect", "Leave it out.")
        for key, expected in unused_rates(stated.rates, scheme=stated.scheme, mechanisms=used)
    )


def _problems(stated: Declared) -> Iterator[Problem]:
    """Yield the errors that concern more than a single key."""
    yield from problems_of(stated.domains, stated.rates.get("limp_per_year"))
    yield from schedule_problems(stated)
    yield from crossing_problems(stated)
    yield from host_problems(stated)
    yield from named_twice([tier.name for tier in stated.tiers], "tiers")
    limits = stated.limits
    is_stated = "max_replicas" in limits.model_fields_set
    if is_stated and limits.max_replicas > limits.max_nodes:
        expected = f"at most limits.max_nodes ({limits.max_nodes}): a server holds one copy"
        yield Problem(("limits", "max_replicas"), expected, str(limits.max_replicas))
    for number, tier in enumerate(stated.tiers):
        if tier.min_nodes is not None and tier.min_nodes > limits.max_nodes:
            expected = f"at most limits.max_nodes ({limits.max_nodes})"
            yield Problem(("tiers", number, "min_nodes"), expected, str(tier.min_nodes))
        if tier.workload is not None and tier.capacity is None:
            expected = "it beside capacity, the run that has it"
            yield Problem(("tiers", number, "workload"), expected, "no capacity", "Leave it out.")
        yield from state_problems(number, tier, stated)
        yield from priced_problems(number, tier, stated.prices)
        yield from named_twice(
            [variant.name for variant in tier.variants], "tiers", number, "variants"
        )
