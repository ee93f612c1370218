"""The plan as a value, as plan.json and as the next fleet.tfvars."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from core.json_object import JsonObject

SCHEMA = 1


@dataclass(frozen=True)
class TierPlan:
    """One tier. `nodes` are active (extra ones of ara included), `spares` wait in the pool (pf)."""

    instance_type: str
    nodes: int
    spares: int
    mechanism: str
    replicas: int
    tokens: int
    utilisation: float
    availability: float
    needed: int
    usd_per_month: float
    collision: float
    purchase: str = "on-demand"
    usd_active_per_month: float | None = None
    usd_standby_per_month: float | None = None
    usd_disks_per_month: float | None = None  # where they are priced
    usd_traffic_per_month: float | None = None
    variant: str | None = None


@dataclass(frozen=True)
class Fleet:
    """The variables of fleet.tfvars beside the tiers' plans."""

    experiment: str
    policy: str
    tiers: Mapping[str, Mapping[str, Any]]  # of the service, with the plan's cpus and memory_mb
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # tiers of no plan


@dataclass(frozen=True)
class Plan:
    """The answer: a fleet with its cost and predictions, or the reasons why there is none.

    `feasible` None: undecided, because the run does not count or has too little evidence. The
    other fields still have their content, but there is no fleet.tfvars.
    """

    feasible: bool | None
    scheme: str
    region: str
    prices_as_of: str
    usd_per_month: float | None = None
    tiers: Mapping[str, TierPlan] = field(default_factory=dict)
    predicted: Mapping[str, Any] = field(default_factory=dict)
    binding: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    insufficient: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    relaxation: Mapping[str, Any] = field(default_factory=dict)  # if infeasible: what would help
    confidence: Mapping[str, Any] | None = None  # of the availability, if rates are uncertain
    margin: Mapping[str, Any] | None = None  # of the latency limits against the law's error
    integrity: Mapping[str, Any] | None = None  # wrong answers, and the cost of their limit
    load: Mapping[str, Any] | None = None  # the highest load that it carries, and until when
    schedule: Mapping[str, Any] | None = None  # machines by the hour, beside this fleet
    present: Mapping[str, Any] | None = None  # the present fleet, compared with the plan
    domains: Mapping[str, Any] | None = None  # places of the machines; service without one domain
    hosts: Mapping[str, Any] | None = None  # the cheapest own servers that hold a fleet
    state: Mapping[str, Any] | None = None  # effect of the tiers' data and writes
    simulation: Mapping[str, Any] = field(default_factory=dict)  # its verdict, or why there is none
    refused: JsonObject | None = None  # the next cheaper fleet, if the simulator refused one
    solver: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    fleet: Fleet | None = None

    def to_json_dict(self) -> JsonObject:
        """Return plan.json. Raises ValueError if a number is not finite (it never should be)."""
        columns = {
            column.name: getattr(self, column.name)
            for column in fields(self)
            if column.name != "fleet"
        }
        value = {
            "schema": SCHEMA,
            **columns,
            "usd_per_month": None if self.usd_per_month is None else round(self.usd_per_month, 2),
            "tiers": {name: asdict(tier) for name, tier in self.tiers.items()},
            "tfvars": self.to_tfvars(),
        }
        body: JsonObject = json.loads(json.dumps(value, allow_nan=False))
        return body

    def to_tfvars(self) -> str:
        """Return a whole fleet.tfvars of the plan; empty if there is no plan."""
        if not self.feasible or self.fleet is None:
            return ""
        assert self.usd_per_month is not None
        head = f"{self.usd_per_month:.2f} USD/month in {self.region}, prices of {self.prices_as_of}"
        lines = [
            f"# Planned by Sparecraft: {head}. cpus = the machine types' vCPUs.",
            f"experiment = {json.dumps(self.fleet.experiment)}",
            f"scheme     = {json.dumps(self.scheme)}",
            "tiers = {",
        ]
        for name, tier in self.tiers.items():
            lines.append(
                f"  {name} = {{ {_attributes(_tier_values(tier, self.fleet.tiers[name]))} }}"
            )
        for name, values in self.fleet.kept.items():
            lines.append(f"  {name} = {{ {_attributes(_without_none(values))} }} # as it was")
        variants = {name: tier.variant for name, tier in self.tiers.items() if tier.variant}
        lines += ["}", *(f"# {name} is built as {variant}" for name, variant in variants.items())]
        lines += ["arbiters = {"]
        lines += [f"  {name} = {{ tokens = {tier.tokens} }}" for name, tier in self.tiers.items()]
        lines += ["}", "# and in experiment.toml, as the settings of an arm:"]
        for name, tier in self.tiers.items():
            values = {"policy": self.fleet.policy, "replicas": tier.replicas, "tokens": tier.tokens}
            lines.append(f"# {name} = {{ {_attributes(values)} }}")
        for name, spread in (self.domains or {}).get("spread", {}).items():
            placement = "; ".join(f"{level} {_sum_text(sizes)}" for level, sizes in spread.items())
            lines.append(f"# {name} over domains, standbys included: {placement}")
        lines += [*_schedule_remarks(self.schedule), *_server_remarks(self.hosts)]
        return "\n".join([*lines, ""])


def _schedule_remarks(schedule: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the schedule as remarks, because no Terraform stack changes machines by the hour."""
    if schedule is None or schedule["usd_per_month"] is None:
        return
    yield (
        f"# By the hour {schedule['usd_per_month']:.2f} USD/month: not in the variables above, "
        "which are the standing fleet of"
    )
    yield "# the busiest hour, as no stack changes machines by the hour. plan.json has all of it."
    for name, tier in schedule["tiers"].items():
        for machine in tier["machines"]:
            kind = f"{machine['instance_type']}@{machine['purchase']}"
            if machine["bought"]:
                yield f"# {name} {kind}: {machine['bought']} in all hours"
            else:
                yield f"# {name} {kind} from hour: {_run_text(machine['by_hour'])}"


def _server_remarks(hosts: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the placement of the fleet on own servers, as remarks."""
    if hosts is None or hosts["usd_per_month"] is None:
        return
    yield (
        f"# On your own servers {hosts['usd_per_month']:.2f} USD/month: the fleet below, which may "
        "be another one than the variables above,"
    )
    yield "# the cheapest by slices. No stack places machines; plan.json has all of it."
    for name, tier in hosts["tiers"].items():
        kind = tier["instance_type"]
        yield f"# {name}: {tier['nodes']} {kind}, {tier['spares']} standby, r {tier['replicas']}"
    for server in hosts["servers"]:
        yield f"# {server['host']}: {', '.join(server['tiers'])}"


def _run_text(counts: Sequence[int]) -> str:
    """Return the hours at which the count changes: `0 2, 8 5` is 2 until hour 8, then 5."""
    starts = [h for h, n in enumerate(counts) if h == 0 or n != counts[h - 1]]
    return ", ".join(f"{hour} {counts[hour]}" for hour in starts)


def _sum_text(sizes: Sequence[int]) -> str:
    return "+".join(str(size) for size in sizes)


def _tier_values(tier: TierPlan, spec: Mapping[str, Any]) -> dict[str, object]:
    planned = {"nodes": tier.nodes, "standby": tier.spares, "instance_type": tier.instance_type}
    return _without_none({**spec, **planned})


def _without_none(values: Mapping[str, Any]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _attributes(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {_hcl(value)}" for key, value in values.items())


def _hcl(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return json.dumps(value)
