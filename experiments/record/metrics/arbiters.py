"""What replication cost: differences of the arbiters' counters over each arm's blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

_COUNTERS = ("received", "replicas_sent", "replicas_wasted", "wasted_us")


def replication_load(
    arbiters: pl.DataFrame, blocks: Mapping[str, Sequence[tuple[float, float]]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Per arm and tier: requests received, replicas sent and wasted, and the work thrown away.

    Parameters: arbiters, one row per poll and server, counters cumulative; blocks, start and end
    [s] of each stretch in which an arm was measured.
    Returns: {arm: {tier: {received, replicas_sent, replicas_wasted, wasted_s,
    replicas_per_request}}}. A counter that went back (the arbiter restarted) leaves its block out.
    """
    needed = {"time_s", "tier", *_COUNTERS}
    if not needed <= set(arbiters.columns) or arbiters.height == 0:
        return {}
    polls = arbiters.select("time_s", "tier", *_COUNTERS).unique(["time_s", "tier"]).sort("time_s")
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for arm, arm_blocks in blocks.items():
        for (tier,), rows in polls.group_by("tier", maintain_order=True):
            totals = _totals(rows, arm_blocks)
            if totals is None:
                continue
            sent, received = totals["replicas_sent"], totals["received"]
            result.setdefault(arm, {})[str(tier)] = {
                "received": received,
                "replicas_sent": sent,
                "replicas_wasted": totals["replicas_wasted"],
                "wasted_s": totals["wasted_us"] / 1e6,
                "replicas_per_request": sent / received if received else None,
            }
    return result


def _totals(rows: pl.DataFrame, blocks: Sequence[tuple[float, float]]) -> dict[str, int] | None:
    totals = dict.fromkeys(_COUNTERS, 0)
    seen = False
    for start_s, end_s in blocks:
        inside = rows.filter(pl.col("time_s").is_between(start_s, end_s))
        if inside.height < 2:
            continue
        grown = {name: int(inside[name][-1]) - int(inside[name][0]) for name in _COUNTERS}
        if min(grown.values()) < 0:
            continue
        seen = True
        for name, value in grown.items():
            totals[name] += value
    return totals if seen else None
