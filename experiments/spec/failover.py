"""`[failover]`: how failed machines are found and replaced, and how fast they are made to fail.

Whether a failed machine is made anew (cloud), replaced by a standby or repaired in its place
(on-premises) follows from the fleet: its scheme, and whether its tier has standbys.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from experiments.spec.fleet import Fleet, TierName
from experiments.spec.source import Source, Strict, refusal

Mechanism = Literal["cloud", "ara", "pf"]


class Failover(Strict):
    """Times in seconds. A machine is lost after `misses` heartbeats in a row without an answer.

    boot_time_s      pause between fencing a machine and powering its replacement on
    ready_timeout_s  how long a replacement may take to be ready
    repair_mean_s    mean of the exponential repair time on-premises; none: nothing is repaired
    crash_mean_s     mean time to a crash of each machine in service; none: nothing is crashed
    tiers            whose machines are watched and crashed; else all tiers
    needed           nodes that carry a tier's load, of its active ones; else all of them
    """

    heartbeat_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    misses: Annotated[int, Field(ge=1, le=100)] = 3
    boot_time_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    ready_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    repair_mean_s: Annotated[float, Field(gt=0)] | None = None
    crash_mean_s: Annotated[float, Field(gt=0)] | None = None
    tiers: Annotated[tuple[TierName, ...], Field(strict=False, min_length=1)] | None = None
    needed: dict[TierName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _needed_is_watched(self) -> Failover:
        for tier in self.needed:
            if self.tiers is not None and tier not in self.tiers:
                raise refusal(
                    f"one of failover.tiers ({', '.join(self.tiers)})", came=tier, key="needed"
                )
        return self

    @model_validator(mode="after")
    def _slower_than_detection(self) -> Failover:
        detection_s = self.heartbeat_s * self.misses
        if self.crash_mean_s is not None and self.crash_mean_s <= detection_s:
            raise refusal(
                f"more than heartbeat_s times misses ({detection_s:g} s)",
                came=f"{self.crash_mean_s:g} s",
                key="crash_mean_s",
                do="Machines would crash faster than crashes are noticed: raise it.",
            )
        return self


def watched_tiers(fleet: Fleet, failover: Failover) -> tuple[str, ...]:
    """The tiers that the controller looks after."""
    return tuple(fleet.tiers) if failover.tiers is None else failover.tiers


def mechanism(fleet: Fleet, tier: str) -> Mechanism:
    """How a tier over-provisions: cloud replacement, active route anywhere, passive fail-over."""
    if fleet.scheme == "cloud":
        return "cloud"
    return "pf" if fleet.tiers[tier].standby else "ara"


def check_failover(toml: Source, fleet: Fleet, failover: Failover) -> None:
    """Raises InputError for what this fleet cannot do."""
    for tier in failover.tiers or ():
        if tier not in fleet.tiers:
            known = ", ".join(fleet.tiers)
            raise toml.error(
                *("failover", "tiers"),
                expected=f"some of the tiers {known}",
                came=f"the unknown tier {tier}",
            )
    for tier, needed in failover.needed.items():
        place = ("failover", "needed", tier)
        if tier not in fleet.tiers:
            known = ", ".join(fleet.tiers)
            raise toml.error(
                *place, expected=f"one of the tiers {known}", came=f"the unknown tier {tier}"
            )
        nodes = fleet.tiers[tier].nodes
        if needed > nodes:
            raise toml.error(*place, expected=f"at most its {nodes} nodes", came=str(needed))
        if needed < nodes and mechanism(fleet, tier) == "pf":
            raise toml.error(
                *place,
                expected=f"all {nodes} nodes: with standbys no active node is an extra one",
                came=str(needed),
                do="Take the key out, or the standbys.",
            )
    for tier, spec in fleet.tiers.items():
        if fleet.scheme == "cloud" and spec.standby:
            raise toml.error(
                "failover",
                expected=f"no standbys in tier {tier}: in the cloud a lost machine is made anew",
                came=f"standby = {spec.standby}",
                do="Set standby = 0 in fleet.tfvars, or scheme to on-prem.",
            )
    if fleet.scheme == "cloud" and failover.repair_mean_s is not None:
        raise toml.error(
            *("failover", "repair_mean_s"),
            expected="nothing: in the cloud a lost machine is made anew, not repaired",
            came=f"{failover.repair_mean_s:g}",
            do="Take the key out, or set scheme to on-prem.",
        )
