"""Settings of an arm: those of its tiers' arbiters, and of their roles (role.json, `settings`).

A role's settings are sent to every machine of a tier before a block, and its service is restarted
if they changed. A lease holds them until the next arm's settings, or until the end of the run. A
tier without settings in any arm is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.design import Design
from experiments.design.contracts import COMPARE_OFF
from experiments.design.experiment import Experiment, TierSettings
from experiments.testbed.agents import Arbiter
from experiments.testbed.live_fleet import Fleet, serving
from experiments.testbed.restart import await_serving


def configure(design: Design, arm: str, fleet: Fleet) -> None:
    """Bring the fleet to an arm; returns when every machine serves with it."""
    spec = design.experiment.arms[arm]
    for tier, arbiter in fleet.arbiters.items():
        settings = spec.of(tier)
        tokens = spec.tokens_of(tier, design.fleet)
        arbiter.set_policy(settings.policy, tokens, settings.look_ahead)
        _replicate(arbiter, settings)
    changed = _put(fleet, role_settings(design.experiment, arm))
    if changed:
        await_serving(design, fleet, changed)


def _replicate(arbiter: Arbiter, settings: TierSettings) -> None:
    """Set replicas and the comparison of their replies, in an order that the arbiter accepts: it
    compares nothing with one replica."""
    if settings.compare == COMPARE_OFF:
        arbiter.set_compare(settings.compare)
        arbiter.set_replicas(settings.replicas)
    else:
        arbiter.set_replicas(settings.replicas)
        arbiter.set_compare(settings.compare)


def role_settings(experiment: Experiment, arm: str) -> dict[str, Mapping[str, Any]]:
    """Return the arm's settings of the role of each tier.

    A tier that only other arms set is empty, which restores its defaults.
    """
    arms = experiment.arms.values()
    tiers = {
        tier for spec in arms for tier, tier_settings in spec.settings.items() if tier_settings.role
    }
    return {tier: experiment.arms[arm].of(tier).role for tier in sorted(tiers)}


def _put(fleet: Fleet, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Put the settings of each tier, and return the machines whose service is restarted for it."""
    return [
        machine.name
        for machine in serving(fleet.inventory, settings)
        if (agent := fleet.agents.get(machine.name))
        and fleet.settings.put(machine.name, agent, settings[str(machine.tier)])
    ]
