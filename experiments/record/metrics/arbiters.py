"""Cost of replication, and agreement of replicas: increments of the arbiters' counters over each
arm's blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from experiments.record.records import VERDICTS

Blocks = Mapping[str, Sequence[tuple[float, float]]]
_COUNTERS = ("received", "replicas_sent", "replicas_wasted", "wasted_us")
_OF_SERVERS = ("latency_us_sum", "latency_count")  # of each server: added up


def replication_load(
    arbiters: pl.DataFrame, blocks: Blocks
) -> dict[str, dict[str, dict[str, object]]]:
    """Per arm and tier: requests received, replicas sent and wasted, and the work thrown away; the
    mean latency of what servers answered.

    Parameters: arbiters, one row per poll and server, counters cumulative; blocks, start and end
    [s] of each stretch in which an arm was measured.
    Returns: {arm: {tier: {received, replicas_sent, replicas_wasted, wasted_s, server_ms,
    replicas_per_request}}}. A counter that went back (the arbiter restarted) leaves its block out.
    """
    result: dict[str, dict[str, dict[str, object]]] = {}
    if not set(_OF_SERVERS) <= set(arbiters.columns):
        return result
    summed = arbiters.with_columns(pl.col(*_OF_SERVERS).sum().over("time_s", "tier"))
    for arm, tier, totals in _grown(summed, blocks, (*_COUNTERS, *_OF_SERVERS)):
        answered = totals["latency_count"]
        sent, received = totals["replicas_sent"], totals["received"]
        result.setdefault(arm, {})[tier] = {
            "received": received,
            "replicas_sent": sent,
            "replicas_wasted": totals["replicas_wasted"],
            "wasted_s": totals["wasted_us"] / 1e6,
            "server_ms": totals["latency_us_sum"] / answered / 1e3 if answered else None,
            "replicas_per_request": sent / received if received else None,
        }
    return result


def agreement(arbiters: pl.DataFrame, blocks: Blocks) -> dict[str, dict[str, dict[str, int]]]:
    """Per arm and tier: reads whose replies were equal, different, not compared, or refused.

    Parameters: as `replication_load`.  Returns: {arm: {tier: {equal, different, not_compared,
    refused}}}, only where an arbiter held replies against each other.
    """
    result: dict[str, dict[str, dict[str, int]]] = {}
    for arm, tier, totals in _grown(arbiters, blocks, [f"replies_{name}" for name in VERDICTS]):
        if any(totals.values()):
            found = {name: totals[f"replies_{name}"] for name in VERDICTS}
            result.setdefault(arm, {})[tier] = found
    return result


def _grown(
    arbiters: pl.DataFrame, blocks: Blocks, counters: Sequence[str]
) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Yield the growth of the counters of each tier's arbiter over each arm's blocks."""
    if not {"time_s", "tier", *counters} <= set(arbiters.columns):
        return
    polls = arbiters.select("time_s", "tier", *counters).drop_nulls()
    polls = polls.unique(["time_s", "tier"]).sort("time_s")
    for arm, arm_blocks in blocks.items():
        for (tier,), rows in polls.group_by("tier", maintain_order=True):
            totals = _totals(rows, arm_blocks, counters)
            if totals is not None:
                yield arm, str(tier), totals


def _totals(
    rows: pl.DataFrame, blocks: Sequence[tuple[float, float]], counters: Sequence[str]
) -> dict[str, int] | None:
    totals = dict.fromkeys(counters, 0)
    seen = False
    for start_s, end_s in blocks:
        inside = rows.filter(pl.col("time_s").is_between(start_s, end_s))
        if inside.height < 2:
            continue
        grown = {name: int(inside[name][-1]) - int(inside[name][0]) for name in counters}
        if min(grown.values()) < 0:
            continue
        seen = True
        for name, value in grown.items():
            totals[name] += value
    return totals if seen else None
