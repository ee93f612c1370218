"""A live fleet: its platform, and all connections to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from experiments.design.inventory import Inventory, Machine
from experiments.testbed.agents import Agent, Arbiter
from experiments.testbed.held_settings import HeldSettings
from experiments.testbed.platforms import Platform


@dataclass(frozen=True)
class Fleet:
    """The live fleet and everything that is connected to it."""

    platform: Platform
    inventory: Inventory
    influxdb: str = field(repr=False)  # its address, with the password
    agents: Mapping[str, Agent]
    arbiters: Mapping[str, Arbiter]  # by tier that has one
    standbys: Mapping[str, Agent] = field(default_factory=dict)  # of machines that are off
    settings: HeldSettings = field(default_factory=HeldSettings)


def serving(inventory: Inventory, tiers: Collection[str]) -> list[Machine]:
    """Return the machines of these tiers that serve, standbys too; not their arbiters."""
    return [
        machine
        for machine in inventory.machines
        if machine.tier in tiers and machine not in inventory.arbiters
    ]
