"""Counters of the arbiters as series over the polls, and their parts inside windows of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.arrays import Floats, Mask
from core.runfiles.events import Window

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Block:
    """A window in which one arm was measured."""

    arm: str
    repeat: int
    start_s: float
    end_s: float
    requests: int


@dataclass(frozen=True)
class Series:
    """One server's counters at the polls (resets joined), and its load at each poll."""

    time_s: Floats
    requests: Floats
    latency_s: Floats  # cumulative
    count: Floats
    last_latency_s: Floats
    tad: Mask


@dataclass(frozen=True)
class TierSeries:
    """One tier's counters at the polls, and its servers."""

    time_s: Floats
    received: Floats
    reads: Floats
    reads_of_one: Floats  # of the reads, for one certain machine
    writes: Floats
    accepted: Floats
    tokens_in_use: Floats
    replicas: Floats
    tad: Mask
    servers: Mapping[str, Series]
    protocol: str | None  # None without a poll


def _cumulative(counter: Floats) -> Floats:
    """Return a counter without its resets; a lower value means that it restarted from zero."""
    if not len(counter):
        return counter
    steps = np.diff(counter)
    steps = np.where(steps < 0, counter[1:], steps)
    return np.concatenate(([0.0], np.cumsum(steps)))


def tier_series(arbiters: pl.DataFrame, tier: str) -> TierSeries:
    import polars as pl

    rows = arbiters.filter(pl.col("tier") == tier).sort("time_s")
    polls = rows.unique("time_s", keep="first").sort("time_s")
    servers = {
        str(part["server"][0]): _series(part) for part in rows.partition_by("server") if part.height
    }
    return TierSeries(
        time_s=column(polls, "time_s"),
        received=_cumulative(column(polls, "received")),
        reads=_cumulative(column(polls, "reads")),
        reads_of_one=_cumulative(column(polls, "reads_of_one")),
        writes=_cumulative(column(polls, "writes")),
        accepted=_cumulative(column(polls, "client_accepted")),
        tokens_in_use=column(polls, "tokens_in_use"),
        replicas=column(polls, "replicas"),
        tad=(polls["policy"] == "tad").to_numpy(),
        servers=servers,
        protocol=str(polls["protocol"][0]) if polls.height else None,
    )


def _series(part: pl.DataFrame) -> Series:
    return Series(
        time_s=column(part, "time_s"),
        requests=_cumulative(column(part, "requests")),
        latency_s=_cumulative(column(part, "latency_us_sum")) / 1e6,
        count=_cumulative(column(part, "latency_count")),
        last_latency_s=column(part, "last_latency_us") / 1e6,
        tad=(part["policy"] == "tad").to_numpy(),
    )


def column(frame: pl.DataFrame, name: str) -> Floats:
    import polars as pl

    return frame[name].cast(pl.Float64).fill_null(0.0).to_numpy()


def inside(time_s: Floats, blocks: Iterable[Window | Block]) -> Mask:
    """Mark intervals between polls (i, i+1) that lie in one of the blocks.

    Parameters: time_s (n,) of the polls [s].  Returns: (n - 1,).
    """
    result = np.zeros(max(0, len(time_s) - 1), dtype=bool)
    for block in blocks:
        result |= (time_s[:-1] >= block.start_s) & (time_s[1:] <= block.end_s)
    return result


def touched(time_s: Floats, windows: Iterable[Window | Block], margin_s: float) -> Mask:
    """Mark intervals between polls that overlap a window, widened by margin_s (narrower if < 0).

    Parameters: time_s (n,) of the polls [s]; margin_s [s].  Returns: (n - 1,).
    """
    result = np.zeros(max(0, len(time_s) - 1), dtype=bool)
    for window in windows:
        start_s, end_s = window.start_s - margin_s, window.end_s + margin_s
        result |= (time_s[:-1] < end_s) & (time_s[1:] > start_s)
    return result


def overlap_s(windows: Sequence[Window], block: Block) -> float:
    """Return the time [s] of the block inside any of the windows, which may overlap."""
    spans = sorted(
        (max(window.start_s, block.start_s), min(window.end_s, block.end_s)) for window in windows
    )
    total, reached = 0.0, -math.inf
    for start_s, end_s in spans:
        total += max(0.0, end_s - max(start_s, reached))
        reached = max(reached, end_s)
    return total
