"""A live fleet: its platform, and everything that is connected to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.agents import Agent, Arbiter
from experiments.platform import Inventory, Platform


@dataclass(frozen=True)
class Fleet:
    """The live fleet and everything that is connected to it."""

    platform: Platform
    inventory: Inventory
    agents: Mapping[str, Agent]
    arbiters: Mapping[str, Arbiter]  # by tier
    standbys: Mapping[str, Agent] = field(default_factory=dict)  # of machines that are off
