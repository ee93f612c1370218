"""What disturbs a block, from the design: its neighbours and its faults, in time."""

from __future__ import annotations

from experiments.design import Design
from experiments.design.interference import episodes
from experiments.design.inventory import Inventory
from experiments.design.schedule import Block, block_length_s
from experiments.stage.faults import Injection, Step


def injections(design: Design, block: Block, inventory: Inventory) -> list[Injection]:
    """The block's interference and faults in seconds from its start, the same for both arms."""
    experiment = design.experiment
    window_s = block_length_s(experiment)
    result = []
    for episode in episodes(experiment.interference, design.fleet, window_s, block.seed):
        parameters = dict(episode.parameters)
        steps = []
        if episode.peer is not None:
            port = {"port": parameters["port"]}
            steps.append(Step("interference.iperf_server", episode.peer, port))
            parameters["peer"] = inventory.machine(episode.peer).address
        steps.append(Step(episode.kind, episode.machine, parameters))
        result.append(Injection(episode.start_s, episode.duration_s, "interference", tuple(steps)))
    for fault in experiment.faults:
        at_s = experiment.phases.warm_up + fault.at_s
        for machine in design.select(fault.select):
            step = Step(fault.kind, machine, fault.parameters)
            result.append(Injection(at_s, fault.for_s, "fault", (step,)))
    return result
