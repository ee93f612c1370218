"""The deployment scheme during a block: controller and crash process, from start to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.design import Design
from experiments.design.failover import Failover, mechanism, watched_tiers
from experiments.design.inventory import Inventory, Machine
from experiments.design.schedule import Block, block_length_s, crashes, stream
from experiments.record.recorder import Recorder
from experiments.testbed.faults import Tally
from experiments.testbed.live_fleet import Fleet, serving
from experiments.testbed.schemes import Controller, Journal, MachineOperations
from experiments.testbed.schemes.crashes import crash
from experiments.testbed.settings import role_settings

_JOIN_S = 60.0


@contextmanager
def running_scheme(
    design: Design, block: Block, fleet: Fleet, recorder: Recorder, tally: Tally, origin: float
) -> Iterator[None]:
    """Replace failed machines until the end of the block, as `[failover]` says.

    Afterwards the fleet is as before. Without `[failover]` it does nothing. `origin`: the block's
    second 0.
    """
    settings = design.experiment.failover
    if settings is None:
        yield
        return
    controller = _controller(settings, design, block, fleet, recorder, tally)
    schedule = _crashes(settings, design, block, list(controller.operations.tiers))
    ended = threading.Event()
    work = (schedule, controller.operations, controller.journal, origin, ended)
    crashing = threading.Thread(target=crash, args=work, name="crashes", daemon=True)
    controller.start(origin)
    crashing.start()
    try:
        yield
    finally:
        ended.set()
        crashing.join(_JOIN_S)
        controller.stop()


def _controller(
    settings: Failover, design: Design, block: Block, fleet: Fleet, recorder: Recorder, tally: Tally
) -> Controller:
    looked_after = watched_tiers(design.fleet, settings)
    machines = serving(fleet.inventory, looked_after)
    tiers = {machine.name: str(machine.tier) for machine in machines}
    nodes = {tier: _names(machines, tier, False) for tier in looked_after}
    standbys = {tier: _names(machines, tier, True) for tier in looked_after}
    agents = {**fleet.agents, **fleet.standbys}
    wanted = role_settings(design.experiment, block.arm)
    by_machine = {name: wanted[tier] for name, tier in tiers.items() if tier in wanted}
    operations = MachineOperations(
        fleet.platform, agents, fleet.arbiters, tiers, by_machine, fleet.settings
    )
    journal = Journal(recorder.event, tally, tiers)
    kinds = {tier: mechanism(design.fleet, tier) for tier in looked_after}
    rng = stream(block.seed, "repairs")
    return Controller(settings, operations, journal, kinds, nodes, standbys, rng)


def _crashes(
    settings: Failover, design: Design, block: Block, machines: list[str]
) -> tuple[tuple[float, str], ...]:
    if settings.crash_mean_s is None:
        return ()
    warm_up_s, end_s = design.experiment.phases.warm_up, block_length_s(design.experiment)
    return crashes(machines, settings.crash_mean_s, warm_up_s, end_s, block.seed)


def _names(machines: list[Machine], tier: str, standby: bool) -> list[str]:
    return [m.name for m in machines if m.tier == tier and m.standby is standby]


def watched(design: Design, inventory: Inventory) -> frozenset[str]:
    """Return the machines that the scheme's own heartbeats watch: who else does need not."""
    settings = design.experiment.failover
    if settings is None:
        return frozenset()
    found = serving(inventory, watched_tiers(design.fleet, settings))
    return frozenset(machine.name for machine in found)
