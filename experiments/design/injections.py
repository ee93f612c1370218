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

HELD_S_MAX = 3600.0  # longest fault that lasts until an event


@dataclass(frozen=True)
class Step:
    """One kind of disturbance on one machine."""

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
    fault: int | None = None  # its index in the design

    @property
    def end_s(self) -> float:
        return math.inf if self.duration_s is None else self.at_s + self.duration_s

    @property
    def machines(self) -> frozenset[str]:
        """The disturbed machines, including the far end of a noisy pair."""
        return frozenset(step.machine for step in self.steps)


def selected(select: Selector, fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the selected machines, the same in every arm."""
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
                fault_parameters = _complete_parameters(
                    fault, number, machine, fleet, block, address_of
                )
                step = Step(fault.kind, machine, fault_parameters)
                result.append(
                    Injection(warm_up_s + at_s, fault.for_s, "fault", (step,), fault=number)
                )
    return result


def _complete_parameters(
    fault: Fault,
    number: int,
    machine: str,
    fleet: Fleet,
    block: Block,
    address_of: Callable[[str], str],
) -> Mapping[str, Any]:
    """Return the parameters as the agent takes them: peers as addresses, and a seed from that of
    the block, the same for all machines of the fault.
    """
    parameters = dict(fault.parameters)
    names_known = {parameter.name for parameter in KINDS[fault.kind].parameters}
    if PEERS in names_known:
        names = peers_of(parameters[PEERS], machine, fleet)
        parameters[PEERS] = ",".join(address_of(name) for name in names)
    if SEED in names_known and parameters.get(SEED) is None:
        parameters[SEED] = int(stream(block.seed, "fault", number).integers(2**32))
    return parameters


def peers_of(text: str, machine: str, fleet: Fleet) -> tuple[str, ...]:
    """Return the machines that a text with commas names, singly or as a tier, except `machine`."""
    machines: dict[str, None] = {}
    for part in text.split(","):
        name = part.strip()
        machines |= dict.fromkeys(fleet.nodes_of(name) if name in fleet.tiers else (name,))
    return tuple(name for name in machines if name != machine)


@dataclass(frozen=True)
class Most:
    """The most machines of a tier that are disturbed at once, and the time [s] in the block."""

    machines: tuple[str, ...]
    at_s: float


def most_at_once(block_injections: Sequence[Injection], fleet: Fleet) -> dict[str, Most]:
    """Return the most machines of each tier that injections of one block disturb at once.

    The number can only rise at the begin of an injection.
    """
    most_of_tier = {tier: Most((), 0.0) for tier in fleet.tiers}
    for at_s in sorted(injection.at_s for injection in block_injections):
        under_way = [
            injection.machines
            for injection in block_injections
            if injection.at_s <= at_s < injection.end_s
        ]
        disturbed = frozenset().union(*under_way)
        for tier, most in most_of_tier.items():
            machines = tuple(name for name in fleet.nodes_of(tier) if name in disturbed)
            if len(machines) > len(most.machines):
                most_of_tier[tier] = Most(machines, at_s)
    return most_of_tier
