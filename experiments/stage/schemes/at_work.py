"""The deployment scheme at work during a block: controller, crash process, and their ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.design import Design
from experiments.design.failover import Failover, mechanism, watched_tiers
from experiments.design.inventory import Inventory, Machine
from experiments.design.schedule import Block, block_length_s, crashes, stream
from experiments.stage.faults import Tally
from experiments.stage.live_fleet import Fleet, serving
from experiments.stage.schemes import Controller, Journal, Log, MachineOperations
from experiments.stage.schemes.crashes import Crashes
from experiments.stage.settings import role_settings


@contextmanager
def scheme_at_work(
    design: Design, block: Block, fleet: Fleet, log: Log, tally: Tally, origin: float
) -> Iterator[None]:
    """Nothing without `[failover]`; with it, failed machines are replaced until the block's end,
    and the fleet is as it was before when this returns. `origin`: the block's second 0."""
    settings = design.experiment.failover
    if settings is None:
        yield
        return
    controller, process = _made(settings, design, block, fleet, log, tally, origin)
    controller.start(origin)
    try:
        process.start()
        yield
    finally:
        process.stop()
        controller.stop()


def _made(
    settings: Failover,
    design: Design,
    block: Block,
    fleet: Fleet,
    log: Log,
    tally: Tally,
    origin: float,
) -> tuple[Controller, Crashes]:
    looked_after = watched_tiers(design.fleet, settings)
    machines = serving(fleet.inventory, looked_after)
    tiers = {machine.name: str(machine.tier) for machine in machines}
    nodes = {tier: _names(machines, tier, False) for tier in looked_after}
    standbys = {tier: _names(machines, tier, True) for tier in looked_after}
    agents = {**fleet.agents, **fleet.standbys}
    wanted = role_settings(design.experiment, block.arm)
    by_machine = {name: wanted[tier] for name, tier in tiers.items() if tier in wanted}
    operations = MachineOperations(fleet.platform, agents, fleet.arbiters, tiers, by_machine)
    journal = Journal(log, tally, tiers)
    kinds = {tier: mechanism(design.fleet, tier) for tier in looked_after}
    rng = stream(block.seed, "repairs")
    controller = Controller(settings, operations, journal, kinds, nodes, standbys, rng)
    schedule: tuple[tuple[float, str], ...] = ()
    if settings.crash_mean_s is not None:
        warm_up_s, end_s = design.experiment.phases.warm_up, block_length_s(design.experiment)
        names = [machine.name for machine in machines]
        schedule = crashes(names, settings.crash_mean_s, warm_up_s, end_s, block.seed)
    return controller, Crashes(schedule, operations, journal, origin)


def _names(machines: list[Machine], tier: str, standby: bool) -> list[str]:
    return [m.name for m in machines if m.tier == tier and m.standby is standby]


def watched(design: Design, inventory: Inventory) -> frozenset[str]:
    """The machines that the scheme's own heartbeats watch: who else does need not."""
    settings = design.experiment.failover
    if settings is None:
        return frozenset()
    found = serving(inventory, watched_tiers(design.fleet, settings))
    return frozenset(machine.name for machine in found)
