"""Notes on a valid fleet with an unexpected effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from experiments.design.experiment import Experiment, Load
from experiments.design.fleet import INFLUXDB_CPUS, Fleet
from experiments.design.roles import Roles
from experiments.design.utilisation import BUSY

Code = Literal[
    "answers-unchecked",
    "busy-with-copies",
    "caps-beyond-host",
    "no-arbiter",
    "spare-without-state",
    "state-not-said",
]
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Note:
    """One of them, of a tier, or of all (tier "")."""

    code: Code
    tier: str
    text: str


def notes_on(fleet: Fleet, roles: Roles, plans: bool, cores: int | None = None) -> Iterator[Note]:
    """Yield all notes, tiers from the front to the back.

    Parameters: plans, a fleet is to be planned from what is measured; cores of the host that all
    machines share, None where each has its own.
    """
    if cores is not None and (caps := caps_of(fleet)) > cores:
        text = (
            f"the tiers' machines may take {caps:g} cores together, and this host has {cores}: "
            "where all are busy it limits them, not their caps. Agents are within these; arbiters "
            f"and InfluxDB may take {_helpers_caps(fleet):g} more."
        )
        yield Note("caps-beyond-host", "", text)
    for name in fleet.tier_order:
        tier, role = fleet.tiers[name], roles[fleet.tiers[name].role]
        if plans and name not in fleet.arbiters:
            do = (
                f"Add {name} = {{}} to `arbiters` of fleet.tfvars"
                if role.arbiter
                else f"Its role {tier.role} can have none"
            )
            text = f"{name} has no arbiter, which counts its requests: no fleet will be planned."
            yield Note("no-arbiter", name, f"{text} {do}.")
        if tier.standby and role.state == "own":
            text = (
                f"{name} keeps state of its own (role {tier.role}): a standby that starts has "
                "neither the data nor the part of a lost machine, and is no availability."
            )
            yield Note("spare-without-state", name, text)
        if tier.standby and role.state is None:
            text = (
                f'{name} has standbys, and its role {tier.role} does not say what "state" a '
                "machine keeps: none, copied or own. Say it in role.json."
            )
            yield Note("state-not-said", name, text)


def busy_notes(
    experiment: Experiment, utilisation: Mapping[str, Mapping[str, float]]
) -> Iterator[Note]:
    """Tiers that arms with copies fill so far that no law of latency is trusted.

    Parameters: utilisation by arm and tier.
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
    """Operations of which any answer with a good status counts as a right one."""
    names = [one.name for one in load.operations if not one.checks and not one.take]
    if names:
        more = ", ..." if len(names) > _NAMES_SHOWN else ""
        text = (
            f"{len(names)} of {len(load.operations)} operations have no checks "
            f"({', '.join(names[:_NAMES_SHOWN])}{more}): of these an answer is right by its "
            "status alone, whatever it contains."
        )
        yield Note("answers-unchecked", "", text)


def caps_of(fleet: Fleet) -> float:
    """Cores that all active machines of the tiers may take together."""
    return round(sum(tier.nodes * tier.cpus for tier in fleet.tiers.values()), 6)


def _helpers_caps(fleet: Fleet) -> float:
    return sum(arbiter.cpus for arbiter in fleet.arbiters.values()) + INFLUXDB_CPUS
