"""A store of equal servers: one leads and all others follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from core.errors import InputError
from experiments.kinds.limplock.clients.process import Clients, Task
from experiments.kinds.limplock.clients.system import NotStable, Parts, System
from experiments.kinds.limplock.row import Row

_PROBED_BYTES, _PROBED_KEYS = 100, 10
_MAKE_TIMEOUT_S = 180.0


class LeaderFollower(System):
    """Any server can be asked; the row's client asks a follower that does not limp.

    port: the clients' port; operations: those that the client can do; made_by: the operation that
    creates the data of a row.
    """

    port: ClassVar[int]
    operations: ClassVar[tuple[str, ...]]
    made_by: ClassVar[str]

    @classmethod
    def check(cls, row: Row) -> None:
        for load in filter(None, (row.workload, row.beside)):
            if load.operation not in cls.operations:
                expected = f"one of {', '.join(cls.operations)}"
                raise InputError(f"row {row.name}", expected=expected, got=load.operation)

    def led(self, leaders: Sequence[str], followers: Sequence[str]) -> Parts:
        """Return the parts, if one server leads and all others follow. Raises NotStable."""
        if len(leaders) != 1 or len(followers) != len(self.nodes) - 1:
            raise NotStable(
                "the servers",
                expected="a leader that all others follow",
                got=f"leaders {', '.join(leaders) or 'none'}, "
                f"followers {', '.join(followers) or 'none'}",
            )
        return {"leader": tuple(leaders), "follower": tuple(followers)}

    def asked_machine(self, row: Row, parts: Parts, injected: str) -> str:
        del row
        return next(name for name in parts["follower"] if name != injected)

    def target(self, node: str, operation: str) -> str:
        """Return the address of one server only, so that no client turns to another one."""
        del operation
        return f"{self.nodes[node].address}:{self.port}"

    def prepare(self, row: Row, count: int, clients: Clients) -> None:
        """Make the probes' targets: a few small keys."""
        del row, count
        self.make(clients, _PROBED_BYTES, _PROBED_KEYS)

    def make(self, clients: Clients, size: int, keys: int) -> None:
        first = next(iter(self.nodes))
        task = Task(first, self.made_by, self.target(first, self.made_by), keys, size, keys)
        clients.do(task, _MAKE_TIMEOUT_S)

    def probe(self, row: Row, operation: str, node: str) -> Task:
        del row
        target = self.target(node, operation)
        return Task(node, operation, target, 0, _PROBED_BYTES, _PROBED_KEYS)
