"""Roles of nodes in a row now: the one that limps, the one that is asked, names for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.kinds.limplock.clients.system import NotStable, Parts, System
from experiments.kinds.limplock.row import Row


@dataclass(frozen=True)
class NodeRoles:
    """labels: what machines are called in figures, by their part: parts move between machines, and
    repeats are compared part by part. Of several machines of one part the one that limps is the
    first, then the one that is asked."""

    limping: str
    asked: str
    labels: Mapping[str, str]


def assign_roles(row: Row, part: str, system: System) -> NodeRoles:
    """As the system says now. Raises NotStable if nobody has the part."""
    parts = system.parts(row)
    if not parts.get(part):
        got = ", ".join(parts) or "none"
        raise NotStable(f"row {row.name}", expected=f"a machine that is {part}", got=got)
    limping = sorted(parts[part])[0]
    asked = system.asked_machine(row, parts, limping)
    return NodeRoles(limping, asked, labels_of(parts, limping, asked))


def labels_of(parts: Parts, limping: str, asked: str) -> dict[str, str]:
    """By machine: its first part, with a number where several have that."""
    mine: dict[str, list[str]] = {}
    placed: set[str] = set()
    for part, machines in parts.items():
        own = [name for name in machines if name not in placed]
        placed.update(own)
        mine[part] = sorted(own, key=lambda name: (name != limping, name != asked, name))
    return {
        name: part if len(names) == 1 else f"{part}-{index}"
        for part, names in mine.items()
        for index, name in enumerate(names, start=1)
    }
