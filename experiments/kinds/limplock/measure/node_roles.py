"""Roles of nodes in a row now: which one limps, which one gets the operation, and all labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.kinds.limplock.clients.system import NotStable, Parts, System
from experiments.kinds.limplock.row import Row


@dataclass(frozen=True)
class NodeRoles:
    """The machine that limps, the machine that gets the row's operation, and all labels.

    labels: names of machines in figures, by their part, because parts move between machines and
    repeats are compared part by part. Among machines of one part, the limping machine is the first,
    then the one that gets the operation."""

    limping: str
    entry: str
    labels: Mapping[str, str]


def assign_roles(row: Row, part: str, system: System) -> NodeRoles:
    """Assign the roles by the system's parts now. Raises NotStable if no machine has the part."""
    parts = system.parts(row)
    if not parts.get(part):
        got = ", ".join(parts) or "none"
        raise NotStable(f"row {row.name}", expected=f"a machine that is {part}", got=got)
    limping = sorted(parts[part])[0]
    entry = system.asked_machine(row, parts, limping)
    return NodeRoles(limping, entry, labels_of(parts, limping, entry))


def labels_of(parts: Parts, limping: str, entry: str) -> dict[str, str]:
    """Return the label of each machine: its first part, with a number if several have it."""
    by_part: dict[str, list[str]] = {}
    placed: set[str] = set()
    for part, machines in parts.items():
        members = [name for name in machines if name not in placed]
        placed.update(members)
        by_part[part] = sorted(members, key=lambda name: (name != limping, name != entry, name))
    return {
        name: part if len(names) == 1 else f"{part}-{index}"
        for part, names in by_part.items()
        for index, name in enumerate(names, start=1)
    }
