"""Disturbances of a design's rows, before they happen; and a check of this host's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from core.errors import EnvironmentMissing
from experiments.design import Design
from experiments.design.disturbance import Disturbance, of_fault
from experiments.design.schedule import blocks
from experiments.kinds.limplock.section import LimplockSection, injected_tier

_MEMINFO = Path("/proc/meminfo")
_BESIDE_MB = 1024  # clients, InfluxDB, the runner


def disturbances(design: Design, section: LimplockSection) -> Sequence[Disturbance]:
    """Return a line for each fault and tier: on which machine it is found out when it is due."""
    repeats, search = len(blocks(design.experiment)), section.search
    found: dict[str, Disturbance] = {}
    times = Counter[str]()
    for row in section.chosen_rows():
        tier = injected_tier(design, row)
        for scenario in section.scenarios:
            kind, parameters = scenario.fault(row.limpware)
            key = f"{tier} {kind} {scenario.name}"
            found.setdefault(key, of_fault(kind, parameters, design.fleet.nodes_of(tier)))
            times[key] += repeats * len(row.injected)
    when = "times, one machine at a time, found when it is due"
    if search is not None:  # the scenarios are its ends
        worst = list(found.values())[-1]
        most = repeats * search.budget
        return [{**worst, "when": f"at most {most} {when}; {search.range_words()}"}]
    return [{**one, "when": f"{times[key]} {when}"} for key, one in found.items()]


def needed_mb(design: Design) -> int:
    """Return the memory of all machines, by their caps, and of what is beside them."""
    tiers = design.fleet.tiers.values()
    return sum((tier.nodes + tier.standby) * tier.memory_mb for tier in tiers) + _BESIDE_MB


def check_memory(design: Design, meminfo: Path = _MEMINFO) -> None:
    """Raises EnvironmentMissing if this host has less: a store that swaps limps by itself."""
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    free_mb = int(lines["MemAvailable"].split()[0]) // 1024
    if (needed := needed_mb(design)) > free_mb:
        raise EnvironmentMissing(
            f"design {design.name}",
            expected=f"{needed} MB of free memory on this host, {_BESIDE_MB} MB of them beside the "
            "machines",
            got=f"{free_mb} MB",
            hint="Free memory, or lower memory_mb in fleet.tfvars.",
        )
