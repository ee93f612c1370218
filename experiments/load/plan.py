"""A block of load, complete before it starts: when each request leaves, and for which page."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from experiments.errors import InputError
from experiments.load.users import Page, Population
from experiments.records import write_json
from experiments.schedule import (
    Block,
    PhaseWindow,
    arrivals,
    block_length_s,
    page_choices,
    phase_windows,
    writes,
)
from experiments.spec.experiment import Experiment, Load

# Load goes to this machine's own fleet and nowhere else: loopback and the benchmarking range, and
# on a load machine of a fleet on EC2, which this file says, the range of its own network.
ALLOWED_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("198.18.0.0/15"))
EC2_NETWORK = ipaddress.ip_network("10.0.0.0/8")
ROLE_FILE = Path("/etc/sparecraft/role.env")

PORTS = {"http": 80, "memcached": 11211, "redis": 6379}  # by protocol


@dataclass(frozen=True)
class LoadPlan:
    """Everything the generator needs; `page_of` and `offsets_s` run over the arrivals.

    A worker's share holds every `step`-th arrival of the block from `first` on (`shares.py`).
    """

    entry: str
    load: Load
    arm: str
    repeat: int
    pair: int
    windows: tuple[PhaseWindow, ...]
    pages: tuple[Page, ...]
    offsets_s: tuple[float, ...]
    page_of: tuple[int, ...]
    first: int = 0
    step: int = 1

    def __post_init__(self) -> None:
        entry_address(self.entry)

    @property
    def length_s(self) -> float:
        """From the block's start to the end of its last phase."""
        return self.windows[-1].end_s

    def index_of(self, place: int) -> int:
        """The number in the block of this plan's arrival `place`."""
        return self.first + self.step * place

    def phase_at(self, offset_s: float) -> str:
        """The phase that a request belongs to, by its intended start."""
        for window in self.windows:
            if offset_s < window.end_s:
                return window.phase
        return self.windows[-1].phase


def entry_address(entry: str) -> tuple[str, str, int]:
    """Protocol, host and port of an entry URL. Refuses anything but this machine's own fleet."""
    parts = urlsplit(entry)
    try:
        address = ipaddress.ip_address(parts.hostname or "")
        networks = [*ALLOWED_NETWORKS, *([EC2_NETWORK] if _on_load_machine() else [])]
        allowed = any(address in network for network in networks)
    except ValueError:
        allowed = False
    if parts.scheme not in PORTS or not allowed:
        raise InputError(
            "load: entry",
            expected=f"{', '.join(f'{name}://' for name in PORTS)} and an IP address in "
            "127.0.0.0/8 or 198.18.0.0/15, the own fleet's (10.0.0.0/8 on its load machine on EC2)",
            came=entry,
            do="Load is sent to this machine's own fleet and nowhere else.",
        )
    return parts.scheme, str(parts.hostname), parts.port or PORTS[parts.scheme]


def _on_load_machine() -> bool:
    return ROLE_FILE.is_file() and "ROLE=load" in ROLE_FILE.read_text().splitlines()


def plan_block(
    entry: str, experiment: Experiment, block: Block, population: Population
) -> LoadPlan:
    """The plan of one block: equal seeds give equal arrivals and pages, whatever the arm."""
    load = experiment.load
    length_s = block_length_s(experiment)
    offsets_s = arrivals(load.arrivals, load.rate_per_s, length_s, block.seed)
    pages = len(population.pages)
    chosen = page_choices(pages, len(offsets_s), block.seed, population.zipf)
    if population.writes:
        chosen = chosen + pages * writes(population.write_share, len(offsets_s), block.seed)
    return LoadPlan(
        entry=entry,
        load=load,
        arm=block.arm,
        repeat=block.repeat,
        pair=block.pair,
        windows=phase_windows(experiment),
        pages=(*population.pages, *population.writes),
        offsets_s=tuple(offsets_s.tolist()),
        page_of=tuple(chosen.tolist()),
    )


def write_plan(path: Path, plan: LoadPlan) -> None:
    """Write a plan for the generator, or for repeating it by hand with Locust."""
    write_json(path, plan_values(plan))


def read_plan(path: Path) -> LoadPlan:
    """Read what `write_plan` wrote."""
    return plan_of(json.loads(path.read_text(encoding="utf-8")))


def plan_values(plan: LoadPlan) -> dict[str, Any]:
    """A plan as plain values."""
    return {**asdict(plan), "load": plan.load.model_dump()}


def plan_of(values: Mapping[str, Any]) -> LoadPlan:
    """The plan of `plan_values`. Raises: InputError for an entry that is not the own fleet's."""
    return LoadPlan(
        entry=values["entry"],
        load=Load.model_validate(values["load"]),
        arm=values["arm"],
        repeat=values["repeat"],
        pair=values["pair"],
        windows=tuple(PhaseWindow(**window) for window in values["windows"]),
        pages=tuple(Page(**page) for page in values["pages"]),
        offsets_s=tuple(values["offsets_s"]),
        page_of=tuple(values["page_of"]),
        first=values["first"],
        step=values["step"],
    )
