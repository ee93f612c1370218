"""A store under test as rows need it: an adapter, `limplock.py` in its role's folder.

What differs from store to store is there and nowhere else: which machine has which part in the
protocol now, whom the row's operation is asked of, what is made before a row, what is looked at
beside. README.md, "To add a system", shows one.
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
    """The system is not whole now: nobody has the part, or somebody does not follow."""


@dataclass(frozen=True)
class Node:
    """A machine: `address` is where clients ask it, and what limps; `control` is beside that."""

    name: str
    address: str
    control: str

    @classmethod
    def of(cls, machine: Machine) -> Node:
        """As the inventory has it."""
        return cls(machine.name, machine.address, str(urlsplit(machine.agent_url).hostname))


@dataclass(frozen=True)
class PageMetric:
    """A white-box metric on the page: its name in `look`, a title, and what it is divided by.

    limit: what it can be at most, where that is known: a name in `look` too, or the number.
    """

    metric: str
    title: str
    unit: float = 1.0
    limit: str | float | None = None


class System(ABC):
    """One arm's system on a fleet that is up. Called by one thread, but for `look`.

    sources: the client's Java sources, beside the adapter; opener: its class; both may differ from
    generation to generation. shown: what the page draws of what `look` returns, the first thing
    first.
    """

    sources: tuple[str, ...]
    opener: str
    shown: ClassVar[tuple[PageMetric, ...]] = ()
    called: Mapping[str, Sequence[Node]] = MappingProxyType({})
    """Machines of the tiers that its tier calls, by role, as whoever makes it says."""
    gap_s = 0.0
    """From one of the row's own operations to the next at least [s], as whoever makes it says."""

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, Any]) -> None:
        """`nodes` of the role's tier in order; settings, the role's, as the arm has them."""
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
        """Return the parts of machines now, as the system itself says; every machine has one. A
        machine that its tier calls has one where the row limps it.

        Raises: NotStable if it is not whole. Bounded in time: a few seconds.
        """

    @abstractmethod
    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        """Return the machine that the row's operation is asked of."""

    @abstractmethod
    def target(self, node: str, operation: str) -> str:
        """Return the target that a client needs to ask this machine: an address, say."""

    @abstractmethod
    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """The data of the row, made once for each arm. Waits until they are there.

        Parameters: count, of the row's operations, as scaled.
        """

    def reset(self, row: Row, count: int, clients: Clients) -> None:
        """Before each run of the row's operation: undo what the last run changed, where that would
        make this one another. Nothing, unless replaced.

        Parameters: count, of the row's operations, as scaled.
        """
        del row, count, clients

    def mend(self, clients: Clients) -> None:
        """After a fault, once it is whole by itself: bring back what the fault moved for good.
        Nothing, unless replaced."""
        del clients

    def operation(self, row: Row, load: Load, count: int, node: str) -> Task:
        """Return the row's operation, or what is asked beside it, as a task of the client."""
        del row
        keys = load.keys or count or 1
        size = round(1000 * (load.size_kb or 0.0))
        return Task(node, load.operation, self.target(node, load.operation), count, size, keys)

    def probed(self, row: Row, operation: str) -> Sequence[str]:
        """Return the machines that a probe of the row is asked of: all of its tier, unless some do
        not serve it.
        """
        del row, operation
        return list(self.nodes)

    @abstractmethod
    def probe(self, row: Row, operation: str, node: str) -> Task:
        """Return a probe of this machine; `count` 0, as it has no end."""

    def opened(self, clients: Clients, row: Row, node: str, count: int) -> Lane:
        """Return the row's operation, connected, about to begin. To be replaced where no lane of
        the client can do it (waiting for a balancing, say): `clients.call` has a function do it.
        """
        task = self.operation(row, row.workload, count, node)
        return clients.open(replace(task, gap_s=max(task.gap_s, self.gap_s)))

    def look(self, node: str) -> Mapping[str, float]:
        """White-box metrics of a machine now; empty if it does not answer. Bounded in time, by
        a thread of its own, past the limping card (`Node.control`).
        """
        del node
        return {}


def adapter_of(directory: Path) -> type[System]:
    """Return the adapter in a role's folder, its `SYSTEM`. Raises InputError if there is none."""
    path = (directory / MODULE).resolve()
    found: Any = getattr(module_at(path), "SYSTEM", None)
    if not (isinstance(found, type) and issubclass(found, System)):
        raise InputError(
            str(path),
            expected="SYSTEM, a class made from System",
            got="none" if found is None else repr(found)[:200],
            hint="Define it, as experiments/kinds/limplock/README.md shows.",
        )
    return found
