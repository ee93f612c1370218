"""The adapter of a replicated service: `failover.py` in its role's folder.

Only the adapter depends on the service: the client program, the naming service, and the orders of
the replication manager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError
from experiments.design.inventory import Machine
from experiments.design.workloads import module_at

MODULE = "failover.py"


@dataclass(frozen=True)
class Happened:
    """An event of the server side: `what` is detected, removed, promoted, ordered or ready;
    monotonic time [s]."""

    at: float
    what: str
    server: str
    by: str


class Service(ABC):
    """A service on a fleet that is up. Calls are bounded in time, and raise SparecraftError."""

    def __init__(self, tier: str, machines: Mapping[str, Sequence[Machine]]) -> None:
        """`tier` of its servers; `machines` of the fleet by their role."""
        self.tier, self.machines = tier, machines

    @abstractmethod
    def command(self, plan: Path, records: Path) -> Sequence[str]:
        """Return the command of the client program; README.md describes the two files."""

    @abstractmethod
    def plan_view(self) -> Mapping[str, Any]:
        """Return the service's keys of the plan: the place of its names, and what is in front."""

    @abstractmethod
    def audit(self, records: Path) -> Mapping[str, int]:
        """Compare the replies to a block's clients with the service's data, after they have ended.

        `changes` is the number of promised changes; all other counts are 0 if each change was made
        once.
        """

    @abstractmethod
    def registered(self) -> frozenset[str]:
        """Names of the servers that the naming service has."""

    @abstractmethod
    def orders(self) -> frozenset[str]:
        """Names of the servers that the replication manager wants started."""

    @abstractmethod
    def fulfil(self, server: str) -> None:
        """Remove the order of a server, which has been carried out."""

    @abstractmethod
    def history(self) -> Sequence[Happened]:
        """Return all that the server side did since the fleet was made, in order."""


def adapter_of(directory: Path) -> type[Service]:
    """Return the adapter in a role's folder, its `SERVICE`. Raises InputError if there is none."""
    path = (directory / MODULE).resolve()
    adapter: Any = getattr(module_at(path), "SERVICE", None)
    if not (isinstance(adapter, type) and issubclass(adapter, Service)):
        raise InputError(
            str(path),
            expected="SERVICE, a class made from Service",
            got="none" if adapter is None else repr(adapter)[:200],
            hint="Define it, as experiments/kinds/failover/README.md says.",
        )
    return adapter
