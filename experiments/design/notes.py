"""Notes on a valid fleet with an unexpected effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from experiments.design.experiment import Experiment, Load
from experiments.design.fleet import INFLUXDB_CPUS, Fleet, planned_tiers, promotion_of
from experiments.design.roles import Roles
from experiments.design.utilisation import BUSY

Code = Literal[
    "answers-unchecked",
    "busy-with-copies",
    "caps-beyond-host",
    "no-arbiter",
    "spare-without-state",
    "state-not-said",
    "too-few-to-promote",
]
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Note:
    """A note on a tier, or on the whole fleet (tier "")."""

    code: Code
    tier: str
    text: str


def notes_on(fleet: Fleet, roles: Roles, plans: bool, cores: int | None = None) -> Iterator[Note]:
    """Yield all notes, tiers from the front to the back.

    Parameters: plans, true if a fleet will be planned from the measurement; cores of the host that
    all machines share, None if each machine has cores of its own.
    """
    if cores is not None and (caps := caps_of(fleet)) > cores:
        helpers_caps = sum(arbiter.cpus for arbiter in fleet.arbiters.values()) + INFLUXDB_CPUS
        text = (
            f"the tiers' machines may take {caps:g} cores together, and this host has {cores}: "
            "where all are busy it limits them, not their caps. Agents are within these; arbiters "
            f"and InfluxDB may take {helpers_caps:g} more."
        )
        yield Note("caps-beyond-host", "", text)
    planned = planned_tiers(fleet, roles)
    for name in fleet.tier_order:
        tier, role = fleet.tiers[name], roles[fleet.tiers[name].role]
        promotion = promotion_of(fleet, name, roles)
        state = role.state if promotion is None else promotion.state
        if plans and name not in fleet.arbiters and name in planned:
            remedy = (
                f"Add {name} = {{}} to `arbiters` of fleet.tfvars"
                if role.arbiter
                else f"Its role {tier.role} can have none"
            )
            text = f"{name} has no arbiter, which counts its requests: no fleet will be planned."
            yield Note("no-arbiter", name, f"{text} {remedy}.")
        if promotion is not None and tier.nodes < promotion.nodes_min:
            text = (
                f"{name} has {tier.nodes} active machines of the role {tier.role}, which needs "
                f"{promotion.nodes_min} to take writes after the loss of one."
            )
            yield Note("too-few-to-promote", name, text)
        if tier.standby and state == "own":
            text = (
                f"{name} keeps state of its own (role {tier.role}): a standby that starts has "
                "neither the data nor the part of a lost machine, and is no availability."
            )
            yield Note("spare-without-state", name, text)
        if tier.standby and state is None:
            text = (
                f'{name} has standbys, and its role {tier.role} does not say what "state" a '
                "machine keeps: none, copied or own. Say it in role.json."
            )
            yield Note("state-not-said", name, text)


def busy_notes(
    experiment: Experiment, utilisation: Mapping[str, Mapping[str, float]]
) -> Iterator[Note]:
    """Yield the tiers that arms with copies use so much that no law of latency can be trusted.

    Parameters: utilisation, by arm and tier.
    """
    for arm, tiers in utilisation.items():
        if max(experiment.arms[arm].replicas.values(), default=1) == 1:
            continue
        for tier, share in tiers.items():
            if share > BUSY:
                text = (
                    f"{tier} is used to {share:.0%} under arm {arm}, whose copies are part of it: "
                    f"above {BUSY:.0%} they lengthen queues more than they shorten tails. Ask for "
                    "less load, or fewer copies."
                )
                yield Note("busy-with-copies", tier, text)


def operation_notes(load: Load) -> Iterator[Note]:
    """Yield a note on the operations for which any answer with a good status counts as correct."""
    names = [
        operation.name
        for operation in load.operations
        if not operation.checks and not operation.take
    ]
    if names:
        suffix = ", ..." if len(names) > _NAMES_SHOWN else ""
        text = (
            f"{len(names)} of {len(load.operations)} operations have no checks "
            f"({', '.join(names[:_NAMES_SHOWN])}{suffix}): of these an answer is right by its "
            "status alone, whatever it contains."
        )
        yield Note("answers-unchecked", "", text)


def caps_of(fleet: Fleet) -> float:
    """Return the cores that all active machines of the tiers may use together."""
    return round(sum(tier.nodes * tier.cpus for tier in fleet.tiers.values()), 6)
