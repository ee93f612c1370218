"""The interface of a store under test. Its adapter is `limplock.py` in its role's folder.

All differences between stores are in the adapters: which machine has which part in the protocol
now, which machine the row's operation is sent to, which data a row needs, which metrics there are.
README.md, "To add a system", shows an adapter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from core.errors import InputError, SparecraftError
from experiments.design.inventory import Machine
from experiments.design.workloads import module_at
from experiments.kinds.limplock.clients.process import Clients, Lane, Task
from experiments.kinds.limplock.row import Load, Row

MODULE = "limplock.py"
Parts = Mapping[str, tuple[str, ...]]
"""Machines by their part in the protocol, the most special part first (a leader before others)."""


class NotStable(SparecraftError):
    """The system is not whole now: no machine has the part, or a machine does not follow."""


@dataclass(frozen=True)
class Node:
    """A machine. Clients use `address`, whose card limps; `control` is its address on the control
    network, which does not limp."""

    name: str
    address: str
    control: str

    @classmethod
    def from_machine(cls, machine: Machine) -> Node:
        return cls(machine.name, machine.address, str(urlsplit(machine.agent_url).hostname))


@dataclass(frozen=True)
class PageMetric:
    """A white-box metric on the page: its name in `look`, a title, and the divisor of its values.

    limit: the largest possible value, if it is known: the name of another metric in `look`, or a
    number.
    """

    metric: str
    title: str
    unit: float = 1.0
    limit: str | float | None = None


class System(ABC):
    """One arm's system on a fleet that is up. Called by one thread, except for `look`.

    sources: the client's Java sources, beside the adapter; opener: its class; both may differ from
    generation to generation. shown: the metrics of `look` that the page draws, the most important
    first.
    """

    sources: tuple[str, ...]
    opener: str
    shown: ClassVar[tuple[PageMetric, ...]] = ()
    called: Mapping[str, Sequence[Node]] = MappingProxyType({})
    """Machines of the tiers that its tier calls, by role; set by the creator."""
    gap_s = 0.0
    """Least time from one of the row's own operations to the next [s]; set by the creator."""

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        """Parameters: nodes of the role's tier, in order; settings of the role in the arm."""
        self.nodes = {node.name: node for node in nodes}
        self.settings = settings

    @property
    def jars(self) -> str:
        """The folder of the client's jars, in build/ROLE: the generation that runs, or `client`."""
        return str(self.settings.get("GENERATION", "client"))

    @classmethod
    @abstractmethod
    def check(cls, row: Row) -> None:
        """Raises InputError for a row that it cannot do."""

    @abstractmethod
    def parts(self, row: Row) -> Parts:
        """Return the parts of machines now, as the system itself reports them; every machine has
        one. A machine of a called tier has one if it limps in the row.

        Raises: NotStable if the system is not whole. Bounded in time: a few seconds.
        """

    @abstractmethod
    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the machine to which the row's operation is sent."""

    @abstractmethod
    def target(self, node: str, operation: str) -> str:
        """Return the target by which a client reaches this machine, such as an address."""

    @abstractmethod
    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Make the data of the row, once for each arm. Returns when they are there.

        Parameters: count, of the row's operations, as scaled.
        """

    def reset(self, row: Row, count: int, clients: Clients) -> None:
        """Undo the changes of the last run of the row's operation, if they would affect the next
        run. Called before each run; does nothing, unless overridden.

        Parameters: count, of the row's operations, as scaled.
        """
        del row, count, clients

    def mend(self, clients: Clients) -> None:
        """Bring back what a fault moved for good. Called after a fault, when the system is whole
        again by itself; does nothing, unless overridden."""
        del clients

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return the row's operation, or the load beside it, as a task of the client."""
        del row
        keys = load.keys or count or 1
        size = round(1000 * (load.size_kb or 0.0))
        return Task(node, load.operation, self.target(node, load.operation), count, size, keys)

    def probed(self, row: Row, operation: str) -> Sequence[str]:
        """Return the machines to which a probe of the row is sent: all of its tier, unless some do
        not serve it.
        """
        del row, operation
        return list(self.nodes)

    @abstractmethod
    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return a probe of this machine; its `count` is 0, because it has no end."""

    def opened(self, clients: Clients, row: Row, node: str, count: int) -> Lane:
        """Return the row's operation, connected, about to begin. Override it if no lane of the
        client can do it, such as a wait for a balancing: `clients.call` lets a function do it.
        """
        task = self.operation(row, row.workload, count, node)
        return clients.open(replace(task, gap_s=max(task.gap_s, self.gap_s)))

    def look(self, node: str) -> Mapping[str, float]:
        """Return the white-box metrics of a machine now; empty if it does not answer. Bounded in
        time; called by a thread of its own; not through the limping card (`Node.control`).
        """
        del node
        return {}


def adapter_of(directory: Path) -> type[System]:
    """Return the adapter in a role's folder, its `SYSTEM`. Raises InputError if there is none."""
    path = (directory / MODULE).resolve()
    adapter: Any = getattr(module_at(path), "SYSTEM", None)
    if not (isinstance(adapter, type) and issubclass(adapter, System)):
        raise InputError(
            str(path),
            expected="SYSTEM, a class made from System",
            got="none" if adapter is None else repr(adapter)[:200],
            hint="Define it, as experiments/kinds/limplock/README.md shows.",
        )
    return adapter
