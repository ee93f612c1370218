"""Restarts of services, for an arm's settings or by an operator."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, wait

from experiments.design import Design
from experiments.testbed.agents import await_in
from experiments.testbed.fleet import await_ready
from experiments.testbed.live_fleet import Fleet, serving

_STOPPED_S = 60.0  # at most: all have answered, or had the time to, in half of it


def restart_tier(design: Design, fleet: Fleet, tier: str) -> None:
    """Stop all services of a tier, then start them; returns when every one serves. All are stopped
    before one is started: otherwise a new cluster could form beside the rest of the old one.

    Raises: SparecraftError if an agent does not answer, or a service does not come back.
    """
    names = [
        machine.name for machine in serving(fleet.inventory, {tier}) if machine.name in fleet.agents
    ]
    agents = [fleet.agents[name] for name in names]
    with ThreadPoolExecutor(len(names), thread_name_prefix="restart") as pool:
        stopped = [pool.submit(agent.stop_service, _STOPPED_S) for agent in agents]
        wait(stopped)  # whatever their results: every stopped service is started again
        started = [pool.submit(agent.start_service) for agent in agents]
    for future in (*stopped, *started):
        future.result()
    await_serving(design, fleet, names)


def await_serving(design: Design, fleet: Fleet, names: Collection[str]) -> None:
    """Wait until the services of these machines answer, and their tiers' arbiters use them."""
    await_ready(fleet, design.roles, {name: fleet.agents[name] for name in names})
    for name in names:
        tier = str(fleet.inventory.machine(name).tier)
        if tier in fleet.arbiters:
            await_in(fleet.arbiters[tier], name)
