"""The deployment scheme during a block: controller and crash process, from start to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from core.errors import SparecraftError
from experiments.design import Design
from experiments.design.failover import Failover, mechanism, watched_tiers
from experiments.design.inventory import Inventory, Machine
from experiments.design.schedule import Block, block_length_s, crashes, stream
from experiments.record.recorder import Recorder
from experiments.testbed.faults import Tally
from experiments.testbed.live_fleet import Fleet, serving
from experiments.testbed.schemes import Controller, Journal, MachineOperations
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
    controller = _make_controller(settings, design, block, fleet, recorder, tally)
    schedule = _crash_schedule(settings, design, block, list(controller.operations.tiers))
    ended = threading.Event()
    work = (schedule, controller.operations, controller.journal, origin, ended)
    crashing = threading.Thread(target=_crash, args=work, name="crashes", daemon=True)
    controller.start(origin)
    crashing.start()
    try:
        yield
    finally:
        ended.set()
        crashing.join(_JOIN_S)
        controller.stop()


def _make_controller(
    settings: Failover, design: Design, block: Block, fleet: Fleet, recorder: Recorder, tally: Tally
) -> Controller:
    tier_names = watched_tiers(design.fleet, settings)
    machines = serving(fleet.inventory, tier_names)
    tiers = {machine.name: str(machine.tier) for machine in machines}
    nodes = {tier: _machine_names(machines, tier, False) for tier in tier_names}
    standbys = {tier: _machine_names(machines, tier, True) for tier in tier_names}
    agents = {**fleet.agents, **fleet.standbys}
    tier_settings = role_settings(design.experiment, block.arm)
    by_machine = {
        name: tier_settings[tier] for name, tier in tiers.items() if tier in tier_settings
    }
    operations = MachineOperations(
        fleet.platform, agents, fleet.arbiters, tiers, by_machine, fleet.settings
    )
    journal = Journal(recorder.event, tally, tiers)
    kinds = {tier: mechanism(design.fleet, tier) for tier in tier_names}
    rng = stream(block.seed, "repairs")
    return Controller(settings, operations, journal, kinds, nodes, standbys, rng)


def _crash_schedule(
    settings: Failover, design: Design, block: Block, machines: list[str]
) -> tuple[tuple[float, str], ...]:
    if settings.crash_mean_s is None:
        return ()
    warm_up_s, end_s = design.experiment.phases.warm_up, block_length_s(design.experiment)
    return crashes(machines, settings.crash_mean_s, warm_up_s, end_s, block.seed)


def _crash(
    schedule: Sequence[tuple[float, str]],
    operations: MachineOperations,
    journal: Journal,
    origin: float,
    ended: threading.Event,
) -> None:
    """Cut the power of machines by a schedule of (seconds from `origin`, machine) until `ended`.

    Each machine has its own Poisson stream. A crash of a machine that is down or waits in the pool
    is skipped: a cold node does not fail, and with exponential gaps skipping is equivalent to
    drawing a new time when the machine serves.
    """
    for at_s, machine in schedule:
        if ended.wait(max(0.0, origin + at_s - time.monotonic())):
            return
        if machine not in journal.in_service:
            continue
        # The time of the request: a busy host answers long after the machine died.
        crashed_at = time.monotonic()
        try:
            operations.platform.inject("machine.crash", machine)
        except SparecraftError as error:
            # Fenced since its state was read; or the platform fails, and the verdict says so.
            if operations.platform.running(machine):
                journal.note_failure(machine, "inject", error)
            continue
        journal.note_crash(machine, crashed_at)


def _machine_names(machines: list[Machine], tier: str, standby: bool) -> list[str]:
    return [
        machine.name for machine in machines if machine.tier == tier and machine.standby is standby
    ]


def watched_machines(design: Design, inventory: Inventory) -> frozenset[str]:
    """Return the machines that the scheme's own heartbeats watch; no other watch is needed."""
    settings = design.experiment.failover
    if settings is None:
        return frozenset()
    machines = serving(inventory, watched_tiers(design.fleet, settings))
    return frozenset(machine.name for machine in machines)
