"""Placement of blocks that HDFS is made to move, and what a DataNode is called by that.

The last DataNode loses what it has (regenerate), leaves (decommission), or has nothing (balance).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# A row's operation, and how the client calls it.
MOVES = {"regenerate": "regain", "decommission": "dismiss", "balance": "balance"}
AMONG = 4  # DataNodes: a block with three replicas that loses one can only go to one other


def parts_of(operation: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """DataNodes by their part; in a balancing as they will be once blocks lie where they should."""
    first, *between, last = names
    if operation == "balance":
        return {"over-utilised": (first,), "under-utilised": (last,), "datanode": tuple(between)}
    if operation == "decommission":
        return {"leaving": (last,), "remaining": (first, *between)}
    return {"datanode": (first, *between), "lost": (last,)}


def laid(operation: str, names: Sequence[str], count: int) -> list[list[str]]:
    """On which DataNodes each of the blocks lies that are to be moved.

    A block with all its replicas can only go to the DataNode that is left out, which is each in
    turn, the first one first. Of a DataNode that leaves every second block has no other replica, so
    that it is the source. What is balanced is the first DataNode's.
    """
    *rest, last = names
    if operation == "balance":
        return [[rest[0]]] * count
    found = []
    for number in range(count):
        others = [name for name in rest if name != rest[number % len(rest)]]
        is_alone = operation == "decommission" and number % 2 == 1
        found.append([last] if is_alone else [last, *others])
    return found


def utilised(used: Mapping[str, int], size: int) -> dict[str, tuple[str, ...]]:
    """DataNodes with more than half a block more than the mean, with as much less, and others.

    Parameters: used, bytes by DataNode; size of a block.
    """
    mean = sum(used.values()) / len(used)
    over = tuple(name for name, held in used.items() if held - mean > size / 2)
    under = tuple(name for name, held in used.items() if mean - held > size / 2)
    between = tuple(name for name in used if name not in (*over, *under))
    return {"over-utilised": over, "under-utilised": under, "datanode": between}
