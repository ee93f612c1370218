"""A block of load, complete before it starts: the time and the operation of each request.

As JSON it is all that a load worker needs (workers/README.md, contracts/load-plan.schema.json).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import TypeAdapter

from core.errors import InputError
from experiments.design.arrival_rate import pieces
from experiments.design.experiment import TASK_TIMEOUT_S, Experiment, Load, SentLoad
from experiments.design.schedule import (
    Block,
    PhaseWindow,
    block_length_s,
    phase_windows,
)
from experiments.design.target import Target
from experiments.design.workloads import (
    Operation,
    Population,
    Workload,
    file_of,
    population_of,
)
from experiments.load.drawn import Timing, draw
from experiments.load.protocols import check_protocol
from experiments.load.tls import PlanTls
from experiments.paths import ROOT

# Load goes to this machine's own fleet and nowhere else: to loopback and the benchmarking range,
# and on a load machine of a fleet on EC2, which `ROLE_FILE` shows, to the range of its network.
ALLOWED_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("198.18.0.0/15"))
EC2_NETWORK = ipaddress.ip_network("10.0.0.0/8")
ROLE_FILE = Path("/etc/sparecraft/role.env")
MASTER_PORT = 5557  # Locust's own, for workers on other machines


@dataclass(frozen=True)
class ClientClass:
    """A class that asks the entries in place of their protocol's client, in a workload's file: its
    path is relative to the root of the project where it lies within."""

    file: str
    name: str


@dataclass(frozen=True)
class LocustFile:
    """A Locust file, whose user classes the operations name: its path is relative to the root of
    the project where it lies within; the classes' weights, and the limit of a task."""

    file: str
    weights: dict[str, float]
    task_timeout_s: float


@dataclass(frozen=True)
class PlanTarget:
    """A service that somebody else runs: the one address that load goes to, and its Host header."""

    address: str
    authority: str


@dataclass(frozen=True)
class RemoteWorkers:
    """Workers on other machines connect to `bind`:`port` of this one."""

    bind: str
    port: int
    connect_timeout_s: float


@dataclass(frozen=True)
class SessionSize:
    """A session's name, and how many steps it has; one that began late in a block has fewer."""

    name: str
    steps: int


@dataclass(frozen=True)
class LoadPlan:
    """Everything a load worker needs; `operation_of` and `offsets_s` run over the arrivals.

    entries: URLs by tier, at least one of each; the arrival of number i in the block goes to URL
    i modulo their count of its operation's tier. A worker's share holds every `step`-th arrival of
    the block from `first` on.

    What only `http` operations have (schema 2) runs over the arrivals too, or is empty: session_of,
    a place in `sessions`, or -1; after, the place of the step before it, whose end and `think_s` it
    waits for, or -1; row_of, a place in `rows`, the values by `columns` that it puts into requests.
    """

    entries: dict[str, tuple[str, ...]]
    load: SentLoad
    arm: str
    repeat: int
    pair: int
    windows: tuple[PhaseWindow, ...]
    operations: tuple[Operation, ...]
    offsets_s: tuple[float, ...]
    operation_of: tuple[int, ...]
    client: ClientClass | None = None
    locustfile: LocustFile | None = None
    remote: RemoteWorkers | None = None
    target: PlanTarget | None = None
    tls: PlanTls | None = None
    first: int = 0
    step: int = 1
    sessions: tuple[SessionSize, ...] = ()
    session_of: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    think_s: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    row_of: tuple[int, ...] = ()
    schema: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        for url in (url for urls in self.entries.values() for url in urls):
            entry_url(url, self.target)

    @property
    def length_s(self) -> float:
        """Time from the block's start to the end of its last phase [s]."""
        return self.windows[-1].end_s

    @property
    def drain_s(self) -> float:
        """Longest time from the end of the last phase to that of the last request [s].

        Each step of a session, and each task of a Locust file, may take as long as its limit.
        """
        steps = max((session.steps for session in self.sessions), default=1)
        task_s = self.locustfile.task_timeout_s if self.locustfile else 0.0
        return task_s + steps * (self.load.connect_timeout_s + self.load.response_timeout_s)

    def index_of(self, position: int) -> int:
        """Return the number in the block of this plan's arrival at `position`."""
        return self.first + self.step * position

    def url_of(self, position: int) -> str:
        """Return the URL of the entry that this plan's arrival at `position` asks."""
        urls = self.entries[self.operations[self.operation_of[position]].entry]
        return urls[self.index_of(position) % len(urls)]

    def phase_at(self, offset_s: float) -> str:
        """Return the phase that a request belongs to, by its intended start."""
        for window in self.windows:
            if offset_s < window.end_s:
                return window.phase
        return self.windows[-1].phase

    def only_used(self) -> LoadPlan:
        """Return the plan with only the operations that an arrival asks: a store has many more
        records.
        """
        used = sorted(set(self.operation_of))
        number_of = {operation: number for number, operation in enumerate(used)}
        return replace(
            self,
            operations=tuple(self.operations[operation] for operation in used),
            operation_of=tuple(number_of[operation] for operation in self.operation_of),
        )


PLAN: TypeAdapter[LoadPlan] = TypeAdapter(LoadPlan)


def entry_url(url: str, target: PlanTarget | None = None) -> SplitResult:
    """Return an entry's URL in its parts. Raises InputError for a host that is not of this
    machine's own fleet or, if the plan has a `target`, not the target.
    """
    parts = urlsplit(url)
    try:
        address = ipaddress.ip_address(parts.hostname or "")
        networks = [*ALLOWED_NETWORKS, *([EC2_NETWORK] if _on_load_machine() else [])]
        if target is not None:
            networks = [ipaddress.ip_network(target.address)]
        allowed = bool(parts.scheme) and any(address in network for network in networks)
    except ValueError:
        allowed = False
    if not allowed:
        raise InputError(
            "load: entry",
            expected="PROTOCOL://ADDRESS[:PORT]/ with an IP address in 127.0.0.0/8 or "
            "198.18.0.0/15, the own fleet's (10.0.0.0/8 on its load machine on EC2)",
            got=url,
            hint="Load is sent to this machine's own fleet and nowhere else.",
        )
    return parts


def protocol_of(url: str) -> str:
    """Return the protocol that an entry speaks, with or without TLS."""
    scheme = urlsplit(url).scheme
    return "http" if scheme == "https" else scheme


def _on_load_machine() -> bool:
    return ROLE_FILE.is_file() and "ROLE=load" in ROLE_FILE.read_text().splitlines()


def plan_block(
    entries: Mapping[str, Sequence[str]],
    experiment: Experiment,
    block: Block,
    workload: Workload,
    target: Target | None = None,
) -> LoadPlan:
    """Return the plan of one block. Equal seeds give equal arrivals and operations in every arm.

    Parameters: entries, URLs by entry tier (an operation that names no tier goes to the first);
    target, the service behind all URLs if there is no fleet.
    """
    load = experiment.load.sent
    population = population_of(workload)
    stages, length_s = experiment.load.stages, block_length_s(experiment)
    warm_up_s = experiment.phases.warm_up
    parts = pieces(warm_up_s, load.rate_per_s, stages) if stages else ()
    draws = draw(population, Timing(load, length_s, block.seed, parts, workload.trace))
    operations = (*population.operations, *population.writes)
    rows, row_of = _used_rows(population, draws.row_of)
    plan = LoadPlan(
        entries={tier: tuple(urls) for tier, urls in entries.items()},
        load=load,
        arm=block.arm,
        repeat=block.repeat,
        pair=block.pair,
        windows=phase_windows(experiment),
        operations=operations,
        offsets_s=draws.offsets_s,
        operation_of=draws.operation_of,
        client=client_class_of(workload),
        locustfile=locustfile_in(workload, population, experiment.load),
        target=None if target is None else PlanTarget(target.address, target.authority),
        sessions=tuple(
            SessionSize(session.name, len(session.steps)) for session in population.sessions
        ),
        session_of=draws.session_of,
        after=draws.after,
        think_s=draws.think_s,
        columns=population.table.columns if rows and population.table else (),
        rows=rows,
        row_of=row_of,
        schema=2 if any(operation.http for operation in operations) else 1,
    ).only_used()
    first = next(iter(entries))
    operations = tuple(addressed(operation, first, entries) for operation in plan.operations)
    used_tiers = {operation.entry for operation in operations}
    used_entries = {tier: plan.entries[tier] for tier in entries if tier in used_tiers}
    if workload.client is None and workload.locustfile is None:
        for url in (url for urls in used_entries.values() for url in urls):
            check_protocol(protocol_of(url))
    if not load.keep_alive:
        operations = tuple(
            operation
            if operation.http is None
            else replace(operation, http=operation.http.closing())
            for operation in operations
        )
    return replace(plan, operations=operations, entries=used_entries)


def addressed(operation: Operation, first: str, entries: Mapping[str, Sequence[str]]) -> Operation:
    """Return the operation with its entry tier: the one that it names, else `first`. Raises:
    InputError for a tier that is no entry.
    """
    tier = operation.entry or first
    if tier not in entries:
        raise InputError(
            f"workload, operation {operation.name}",
            expected=f"one of the entry tiers {', '.join(entries)}",
            got=tier,
            hint="Name one of these as its entry, or none.",
        )
    return replace(operation, entry=tier)


def _used_rows(
    population: Population, row_of: tuple[int, ...]
) -> tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]:
    """Return the rows of the table that arrivals use, and the position of each arrival's row among
    them.
    """
    if population.table is None:
        return (), ()
    used = sorted(set(row_of))
    number_of = {row: number for number, row in enumerate(used)}
    rows = population.table.rows
    return tuple(rows[row] for row in used), tuple(number_of[row] for row in row_of)


def client_class_of(workload: Workload) -> ClientClass | None:
    if workload.client is None:
        return None
    return ClientClass(_from_root(file_of(workload)), workload.client.__name__)


def locustfile_in(workload: Workload, population: Population, load: Load) -> LocustFile | None:
    if workload.locustfile is None:
        return None
    names = [operation.name for operation in population.operations]
    weights = dict(zip(names, population.weights, strict=True))
    return LocustFile(
        _from_root(workload.locustfile), weights, load.task_timeout_s or TASK_TIMEOUT_S
    )


def _from_root(file: Path) -> str:
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


def write_plan(path: Path, plan: LoadPlan) -> None:
    """Write a plan for a load worker, or for repeating it by hand."""
    from experiments.record.records import write_bytes  # a worker only reads, and needs no polars

    write_bytes(path, PLAN.dump_json(plan) + b"\n")


def read_plan(path: Path) -> LoadPlan:
    """Read what `write_plan` wrote. Raises: InputError for an entry that is not the own fleet's."""
    return PLAN.validate_json(path.read_bytes())
