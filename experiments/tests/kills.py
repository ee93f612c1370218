"""Kills that are drawn, a design that always has faults in force, and what a kill may not leave.

All is drawn ahead: a seed repeats the kills, each so long after faults were seen in force.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.load.plan import LoadPlan

EXPERIMENT = "tst-kills"
TARGETS = ("influxdb", "runner", "agent", "arbiter", "machine")
CACHES = ("cache-1", "cache-2")
_PAUSE_S_MAX = 2.0
_EVERY_S, _FOR_S, _UNTIL_S = 5.0, 8.0, 1800.0  # each cache has a fault 8 of 10 seconds
_FAULTS = (
    ("net.limp", "{ factor = 4 }"),
    ("process.hang", "{}"),
    ("net.loss", "{ percent = 5 }"),
    ("cpu.limp", "{ factor = 4 }"),
)


@dataclass(frozen=True)
class Kill:
    """The victim; `pick` in [0, 1) chooses where there are several."""

    target: str
    pick: float
    pause_s: float

    def of(self, names: Iterable[str]) -> str:
        machines = sorted(names)
        return machines[int(self.pick * len(machines))]


def draw(rng: random.Random, count: int) -> list[Kill]:
    """Every target as often as any other, in any order; the last is InfluxDB, which stays away."""
    targets = [TARGETS[number % len(TARGETS)] for number in range(count)]
    rng.shuffle(targets)
    last = targets.index(TARGETS[0])
    targets[last], targets[-1] = targets[-1], targets[last]
    return [Kill(target, rng.random(), rng.uniform(0.0, _PAUSE_S_MAX)) for target in targets]


def faulty(source: Path, into: Path) -> Path:
    """The design, and one fault after another on both caches until the load ends."""
    shutil.copytree(source, into)
    kinds = [(kind, cache) for kind in _FAULTS for cache in CACHES]
    with (into / "experiment.toml").open("a") as toml:
        for number in range(int((_UNTIL_S - _FOR_S) / _EVERY_S)):
            (kind, parameters), cache = kinds[number % len(kinds)]
            toml.write(
                f'\n[[faults]]\nkind = "{kind}"\nselect = {{ machine = "{cache}" }}\n'
                f"at_s = {number * _EVERY_S}\nfor_s = {_FOR_S}\nparameters = {parameters}\n"
            )
    return into


def not_recorded(records: Sequence[Mapping[str, Any]], plan: LoadPlan) -> list[int]:
    """Arrivals whose time to be answered was over before the last record, and that have none."""
    indices = {record["index"] for record in records}
    first_record = min(records, key=lambda record: int(record["index"]))
    start_s = first_record["intended_s"] - plan.offsets_s[first_record["index"]]
    end_s = max(record["done_s"] or 0.0 for record in records) - start_s
    limit_s = plan.load.connect_timeout_s + plan.load.response_timeout_s
    return [
        n for n, at_s in enumerate(plan.offsets_s) if at_s + limit_s < end_s and n not in indices
    ]


def processes_of(folder: Path) -> list[str]:
    """The commands of the processes that were given something in a folder."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if str(folder) in command and file.parent.name != str(os.getpid()):
            commands.append(command)
    return commands
