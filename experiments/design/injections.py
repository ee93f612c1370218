"""Disturbances of a block: its neighbours and faults, drawn in advance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.design.contracts import KINDS, PEERS, SEED
from experiments.design.experiment import Experiment, Fault, Selector
from experiments.design.fleet import Fleet
from experiments.design.interference import episodes
from experiments.design.schedule import Block, block_length_s, fault_begins, stream

HELD_S_MAX = 3600.0  # of a fault that is held until something has happened


@dataclass(frozen=True)
class Step:
    """One kind on one machine."""

    kind: str
    machine: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Injection:
    """Steps that start together, in order, and are reverted together, in reverse order.

    `duration_s` None: sticky, until the block's end.
    """

    at_s: float
    duration_s: float | None
    what: str  # fault | interference
    steps: tuple[Step, ...]
    fault: int | None = None  # which of the design's, from 0

    @property
    def end_s(self) -> float:
        """The planned end [s]."""
        return math.inf if self.duration_s is None else self.at_s + self.duration_s

    @property
    def machines(self) -> frozenset[str]:
        """Whom it disturbs, the far end of a noisy pair too."""
        return frozenset(step.machine for step in self.steps)


def selected(select: Selector, fleet: Fleet) -> tuple[str, ...]:
    """Names of the selected machines, the same in every arm."""
    if select.machine is not None:
        return (select.machine,)
    if select.all:
        return tuple(name for tier in fleet.tiers for name in fleet.nodes_of(tier))
    assert select.tier is not None  # a Selector has one or the other
    nodes = fleet.nodes_of(select.tier)
    if select.place is not None:
        return nodes[:1] if select.place == "first" else nodes[1:]
    return nodes[: select.count]


def injections(
    experiment: Experiment, fleet: Fleet, block: Block, address_of: Callable[[str], str] = str
) -> list[Injection]:
    """Return the block's interference and faults in seconds from its start, the same for both arms.

    Parameters: address_of, a machine's data address by its name, for noisy pairs.
    """
    window_s = block_length_s(experiment)
    result = []
    for episode in episodes(experiment.interference, fleet, window_s, block.seed):
        parameters = dict(episode.parameters)
        steps = []
        if episode.peer is not None:
            port = {"port": parameters["port"]}
            steps.append(Step("interference.iperf_server", episode.peer, port))
            parameters["peer"] = address_of(episode.peer)
        steps.append(Step(episode.kind, episode.machine, parameters))
        result.append(Injection(episode.start_s, episode.duration_s, "interference", tuple(steps)))
    warm_up_s, measure_s = experiment.phases.warm_up, experiment.phases.measure
    for number, fault in enumerate(experiment.faults):
        for at_s in fault_begins(fault, number, measure_s, block.seed):
            for machine in selected(fault.select, fleet):
                given = _completed(fault, number, machine, fleet, block, address_of)
                step = Step(fault.kind, machine, given)
                result.append(
                    Injection(warm_up_s + at_s, fault.for_s, "fault", (step,), fault=number)
                )
    return result


def _completed(
    fault: Fault,
    number: int,
    machine: str,
    fleet: Fleet,
    block: Block,
    address_of: Callable[[str], str],
) -> Mapping[str, Any]:
    """Return the parameters as the agent takes them: peers by their addresses, and a seed of the
    block's, one for all machines of the fault.
    """
    parameters = dict(fault.parameters)
    known = {one.name for one in KINDS[fault.kind].parameters}
    if PEERS in known:
        names = peers_of(parameters[PEERS], machine, fleet)
        parameters[PEERS] = ",".join(address_of(name) for name in names)
    if SEED in known and parameters.get(SEED) is None:
        parameters[SEED] = int(stream(block.seed, "fault", number).integers(2**32))
    return parameters


def peers_of(text: str, machine: str, fleet: Fleet) -> tuple[str, ...]:
    """Return the machines that a text with commas names, by themselves or as a tier; never
    `machine`.
    """
    found: dict[str, None] = {}
    for word in text.split(","):
        name = word.strip()
        found |= dict.fromkeys(fleet.nodes_of(name) if name in fleet.tiers else (name,))
    return tuple(name for name in found if name != machine)


@dataclass(frozen=True)
class Most:
    """The most machines of a tier that are disturbed at once, and when [s from a block's start]."""

    machines: tuple[str, ...]
    at_s: float


def most_at_once(asked: Sequence[Injection], fleet: Fleet) -> dict[str, Most]:
    """Return the most machines of each tier that injections of one block disturb at once.

    The number can only rise at the begin of an injection.
    """
    found = {tier: Most((), 0.0) for tier in fleet.tiers}
    for at_s in sorted(one.at_s for one in asked):
        under_way = [one.machines for one in asked if one.at_s <= at_s < one.end_s]
        disturbed = frozenset().union(*under_way)
        for tier, most in found.items():
            machines = tuple(name for name in fleet.nodes_of(tier) if name in disturbed)
            if len(machines) > len(most.machines):
                found[tier] = Most(machines, at_s)
    return found
