"""Cost of replication, and agreement of replicas: increments of the arbiters' counters over each
arm's blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from experiments.record.records import VERDICTS

Blocks = Mapping[str, Sequence[tuple[float, float]]]
_COUNTERS = ("received", "replicas_sent", "replicas_wasted", "wasted_us")
_SERVER_COUNTERS = ("latency_us_sum", "latency_count")  # of each server: added up


def replication_load(
    arbiters: pl.DataFrame, blocks: Blocks
) -> dict[str, dict[str, dict[str, object]]]:
    """Return by arm and tier the received requests, sent and wasted replicas, and wasted work.

    Also the mean latency of the servers' answers.

    Parameters: arbiters, one row per poll and server, counters cumulative; blocks, start and end
    [s] of each stretch in which an arm was measured.
    Returns: {arm: {tier: {received, replicas_sent, replicas_wasted, wasted_s, server_ms,
    replicas_per_request}}}. A counter that went back (the arbiter restarted) leaves its block out.
    """
    result: dict[str, dict[str, dict[str, object]]] = {}
    if not set(_SERVER_COUNTERS) <= set(arbiters.columns):
        return result
    summed = arbiters.with_columns(pl.col(*_SERVER_COUNTERS).sum().over("time_s", "tier"))
    for arm, tier, totals in _counter_growth(summed, blocks, (*_COUNTERS, *_SERVER_COUNTERS)):
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
    """Return by arm and tier the reads with equal, different, not compared, or refused replies.

    Parameters: as `replication_load`.  Returns: {arm: {tier: {equal, different, not_compared,
    refused}}}, only for arbiters that compared replies.
    """
    result: dict[str, dict[str, dict[str, int]]] = {}
    for arm, tier, totals in _counter_growth(
        arbiters, blocks, [f"replies_{name}" for name in VERDICTS]
    ):
        if any(totals.values()):
            counts = {name: totals[f"replies_{name}"] for name in VERDICTS}
            result.setdefault(arm, {})[tier] = counts
    return result


def _counter_growth(
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
    was_polled = False
    for start_s, end_s in blocks:
        polls = rows.filter(pl.col("time_s").is_between(start_s, end_s))
        if polls.height < 2:
            continue
        growth = {name: int(polls[name][-1]) - int(polls[name][0]) for name in counters}
        if min(growth.values()) < 0:
            continue
        was_polled = True
        for name, value in growth.items():
            totals[name] += value
    return totals if was_polled else None
