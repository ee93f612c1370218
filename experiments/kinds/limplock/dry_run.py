"""Disturbances of a design's rows, before they happen; and a check of this host's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import psutil

from core.errors import EnvironmentMissing
from experiments.design import Design
from experiments.design.disturbance import Disturbance, of_fault
from experiments.design.schedule import blocks
from experiments.kinds.limplock.section import LimplockSection, injected_tier

_BESIDE_MB = 1024  # for clients, InfluxDB and the runner


def disturbances(design: Design, section: LimplockSection) -> Sequence[Disturbance]:
    """Return a line for each fault and tier. The machine is determined when the fault is due."""
    repeats, search = len(blocks(design.experiment)), section.search
    by_fault: dict[str, Disturbance] = {}
    times = Counter[str]()
    for row in section.chosen_rows():
        tier = injected_tier(design, row)
        for scenario in section.scenarios:
            kind, parameters = scenario.fault(row.limpware)
            key = f"{tier} {kind} {scenario.name}"
            by_fault.setdefault(key, of_fault(kind, parameters, design.fleet.nodes_of(tier)))
            times[key] += repeats * len(row.injected)
    when = "times, one machine at a time, found when it is due"
    if search is not None:  # the scenarios are its ends
        worst = list(by_fault.values())[-1]
        times_max = repeats * search.budget
        return [{**worst, "when": f"at most {times_max} {when}; {search.range_words()}"}]
    return [
        {**disturbance, "when": f"{times[key]} {when}"} for key, disturbance in by_fault.items()
    ]


def needed_mb(design: Design) -> int:
    """Return the memory of all machines, by their caps, and of the other programs [MB]."""
    tiers = design.fleet.tiers.values()
    return sum((tier.nodes + tier.standby) * tier.memory_mb for tier in tiers) + _BESIDE_MB


def check_memory(design: Design) -> None:
    """Raises EnvironmentMissing if this host has less: a store that swaps limps by itself."""
    free_mb = psutil.virtual_memory().available >> 20
    if (needed := needed_mb(design)) > free_mb:
        raise EnvironmentMissing(
            f"design {design.name}",
            expected=f"{needed} MB of free memory on this host, {_BESIDE_MB} MB of them beside the "
            "machines",
            got=f"{free_mb} MB",
            hint="Free memory, or lower memory_mb in fleet.tfvars.",
        )
