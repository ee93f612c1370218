"""`[failover]`: detection and replacement of failed machines, and the rate of injected crashes.

The fleet decides if a failed machine is made anew (cloud), replaced by a standby or repaired in its
place (on-premises): by its scheme, and by the standbys of the tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from core.config_file import Problem, Strict, refusal
from experiments.design.fleet import Fleet, TierName

Mechanism = Literal["cloud", "ara", "pf"]


class Failover(Strict):
    """Times in seconds. A machine is lost after `misses` heartbeats in a row without an answer."""

    heartbeat_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Time between two heartbeats of a machine's agent."""
    misses: Annotated[int, Field(ge=1, le=100)] = 3
    """Missed heartbeats in a row after which a machine is lost."""
    boot_time_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Pause between fencing a machine and powering its replacement on."""
    ready_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """Time-out of a replacement's start."""
    repair_mean_s: Annotated[float, Field(gt=0)] | None = None
    """Mean of the exponential repair time on-premises; none: no repair."""
    crash_mean_s: Annotated[float, Field(gt=0)] | None = None
    """Mean time to a crash of each machine in service; none: no crashes."""
    tiers: Annotated[tuple[TierName, ...], Field(strict=False, min_length=1)] | None = None
    """Tiers whose machines are watched and crashed; by default all."""
    needed: dict[TierName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Number of nodes that a tier's load needs; by default all active ones."""

    @model_validator(mode="after")
    def _check_needed(self) -> Failover:
        for tier in self.needed:
            if self.tiers is not None and tier not in self.tiers:
                raise refusal(
                    f"one of failover.tiers ({', '.join(self.tiers)})", got=tier, key="needed"
                )
        return self

    @model_validator(mode="after")
    def _check_crashes(self) -> Failover:
        detection_s = self.heartbeat_s * self.misses
        if self.crash_mean_s is not None and self.crash_mean_s <= detection_s:
            raise refusal(
                f"more than heartbeat_s times misses ({detection_s:g} s)",
                got=f"{self.crash_mean_s:g} s",
                key="crash_mean_s",
                hint="Machines would crash faster than crashes are noticed: raise it.",
            )
        return self


def watched_tiers(fleet: Fleet, failover: Failover) -> tuple[str, ...]:
    return tuple(fleet.tiers) if failover.tiers is None else failover.tiers


def mechanism(fleet: Fleet, tier: str) -> Mechanism:
    """Over-provisioning of a tier: cloud replacement, active route anywhere, passive fail-over."""
    if fleet.scheme == "cloud":
        return "cloud"
    return "pf" if fleet.tiers[tier].standby else "ara"


def failover_problems(fleet: Fleet, failover: Failover) -> Iterator[Problem]:
    """Yield the requirements that this fleet does not meet."""
    unknown = f"some of the tiers {', '.join(fleet.tiers)}"
    for tier in failover.tiers or ():
        if tier not in fleet.tiers:
            yield Problem(("failover", "tiers"), unknown, f"the unknown tier {tier}")
    for tier, needed in failover.needed.items():
        key = ("failover", "needed", tier)
        if tier not in fleet.tiers:
            yield Problem(key, unknown, f"the unknown tier {tier}")
            continue
        nodes = fleet.tiers[tier].nodes
        if needed > nodes:
            yield Problem(key, f"at most its {nodes} nodes", str(needed))
        elif needed < nodes and mechanism(fleet, tier) == "pf":
            yield Problem(
                key,
                f"all {nodes} nodes: with standbys no active node is an extra one",
                str(needed),
                "Take the key out, or the standbys.",
            )
    for tier in watched_tiers(fleet, failover):
        if tier in fleet.tiers and tier not in fleet.arbiters:
            expected = "tiers with an arbiter, which is told of a machine that is lost"
            yield Problem(("failover", "tiers"), expected, f"{tier}, which has none")
    if fleet.scheme == "cloud":
        yield from _cloud_problems(fleet, failover)


def _cloud_problems(fleet: Fleet, failover: Failover) -> Iterator[Problem]:
    for tier, spec in fleet.tiers.items():
        if spec.standby:
            yield Problem(
                ("failover",),
                f"no standbys in tier {tier}: in the cloud a lost machine is made anew",
                f"standby = {spec.standby}",
                "Set standby = 0 in fleet.tfvars, or scheme to on-prem.",
            )
    if failover.repair_mean_s is not None:
        yield Problem(
            ("failover", "repair_mean_s"),
            "nothing: in the cloud a lost machine is made anew, not repaired",
            f"{failover.repair_mean_s:g}",
            "Take the key out, or set scheme to on-prem.",
        )
