"""Checks of a design against its `[guard]`: too many disturbances, conditions without effect."""

from __future__ import annotations

import math
from collections.abc import Iterator

from core.config_file import Problem
from experiments.design.experiment import Experiment
from experiments.design.failover import watched_tiers
from experiments.design.fleet import Fleet
from experiments.design.injections import Most, injections, most_at_once
from experiments.design.schedule import blocks

_RADIUS = ("guard", "machines_per_tier_max")


def most_in_any_block(experiment: Experiment, fleet: Fleet) -> dict[str, Most]:
    """Return the most machines of each tier that faults and neighbours disturb at once."""
    # Both arms of a pair meet the same disturbances.
    block_of_seed = {block.seed: block for block in blocks(experiment)}
    maxima = [
        most_at_once(injections(experiment, fleet, block), fleet)
        for block in block_of_seed.values()
    ]
    return {
        tier: max((maximum[tier] for maximum in maxima), key=lambda most: len(most.machines))
        for tier in fleet.tiers
    }


def guard_problems(experiment: Experiment, fleet: Fleet) -> Iterator[Problem]:
    """Yield the problems of a design that is otherwise correct."""
    guard = experiment.guard
    load = experiment.load
    requests = math.inf if load.rate_per_s is None else load.most_per_s * guard.window_s
    if guard.looks_at_requests and requests < guard.requests_min:
        yield Problem(
            ("guard", "requests_min"),
            f"at most {requests:g}: so many requests come in {guard.window_s:g} s",
            str(guard.requests_min),
            "Lower it, or lengthen window_s; the guard would never end a run.",
        )
    if guard.machines_per_tier_max is not None:
        yield from _radius_problems(experiment, fleet, guard.machines_per_tier_max)


def _radius_problems(experiment: Experiment, fleet: Fleet, limit: int) -> Iterator[Problem]:
    for tier, most in most_in_any_block(experiment, fleet).items():
        if len(most.machines) > limit:
            yield Problem(
                _RADIUS,
                f"at least {len(most.machines)}: {most.at_s:.1f} s into a block the design "
                f"disturbs {', '.join(most.machines)} of tier {tier} at once",
                str(limit),
                "Let less be disturbed at a time, or raise it.",
            )
    failover = experiment.failover
    if failover is None or failover.crash_mean_s is None:
        return
    for tier in watched_tiers(fleet, failover):
        nodes = fleet.tiers[tier].nodes
        if nodes > limit:
            yield Problem(
                _RADIUS,
                f"at least {nodes}: failover.crash_mean_s may have all machines of tier {tier} "
                "down at once",
                str(limit),
                "Raise it, or take crash_mean_s out.",
            )
