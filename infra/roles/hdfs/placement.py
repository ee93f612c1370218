"""Initial places of the blocks that HDFS is made to move, and the parts of DataNodes.

The last DataNode loses its blocks (regenerate), leaves (decommission), or is empty (balance).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# A row's operation, and how the client calls it.
MOVES = {"regenerate": "regain", "decommission": "dismiss", "balance": "balance"}
AMONG = 4  # DataNodes: a block with three replicas that loses one can only go to one other


def parts_of(operation: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return DataNodes by part; for a balancing, as they are after the initial placement."""
    first, *between, last = names
    if operation == "balance":
        return {"over-utilised": (first,), "under-utilised": (last,), "datanode": tuple(between)}
    if operation == "decommission":
        return {"leaving": (last,), "remaining": (first, *between)}
    return {"datanode": (first, *between), "lost": (last,)}


def initial_places(operation: str, names: Sequence[str], count: int) -> list[list[str]]:
    """Return the DataNodes of each block to be moved, before the move.

    A block with three replicas can only go to the DataNode that is left out: each DataNode in turn,
    beginning with the first. If a DataNode leaves, every second block has a replica only there, so
    that it is the source. Blocks of a balancing are on the first DataNode.
    """
    *rest, last = names
    if operation == "balance":
        return [[rest[0]]] * count
    places = []
    for number in range(count):
        others = [name for name in rest if name != rest[number % len(rest)]]
        is_alone = operation == "decommission" and number % 2 == 1
        places.append([last] if is_alone else [last, *others])
    return places


def split_by_use(used: Mapping[str, int], size: int) -> dict[str, tuple[str, ...]]:
    """Split DataNodes into over-utilised, under-utilised, and others.

    The limits are the mean plus and minus half a block. Parameters: used, bytes by DataNode; size,
    bytes of a block.
    """
    mean = sum(used.values()) / len(used)
    over = tuple(name for name, size_used in used.items() if size_used - mean > size / 2)
    under = tuple(name for name, size_used in used.items() if mean - size_used > size / 2)
    between = tuple(name for name in used if name not in (*over, *under))
    return {"over-utilised": over, "under-utilised": under, "datanode": between}
