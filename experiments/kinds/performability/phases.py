"""One block with one fault, told apart: before, fault, degraded, recovery, after.

| phase | from | to |
|---|---|---|
| before | the end of the warm-up | the fault |
| fault | the fault | when the arbiter gives the struck machine up, or the fault's end |
| degraded | that moment | the fault's end |
| recovery | the fault's end | the end of the failure, where that is later |
| after | the end of both | the end of the block |

The **failure** is what users feel, and its duration is not the fault's (Broadwell 2004, Table 2).
It lasts from the fault to the end of the last period that is not as before. A period is not so
where its mean latency is above `slow_factor` times that of the worst period before the fault, or
its share of good answers is `lost_share` below that of the worst one. What comes more than
CALM_PERIODS after fault and failure is a spike of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from experiments.kinds.performability.section import PerformabilitySection
from experiments.record.metrics.frames import OK

PHASES = ("before", "fault", "degraded", "recovery", "after")
CALM_PERIODS = 5


@dataclass(frozen=True)
class Course:
    """What became of one block. Times in seconds since the run began."""

    start_s: float  # the fault
    end_s: float
    spans: dict[str, tuple[float, float]]  # by phase; those that did not come are missing
    detected_s: float | None  # after the fault's begin
    failure_s: float
    recovered: bool  # before the block's end; else the failure lasted at least so long

    @property
    def failure(self) -> tuple[float, float]:
        """Fault and failure, whichever ends later: what versions are compared by."""
        return self.start_s, max(self.end_s, self.start_s + self.failure_s)


def course(
    requests: pl.DataFrame,
    window: tuple[float, float],
    block: tuple[float, float],
    struck: pl.DataFrame,
    section: PerformabilitySection,
) -> Course:
    """The phases of a block.

    Parameters: requests of the block, prepared; window, from when to when the fault lasted;
    block, from when to when it was measured; struck, the arbiter's rows of the struck machine
    (`time_s`, `alive`), none where no arbiter knows it.
    """
    start_s, end_s = window
    failure_s = _failure_s(periods(requests, start_s, section.period_s), window, section)
    detected_s = _given_up_s(struck, window)
    failed_until_s = start_s + failure_s
    recovered = failed_until_s < block[1] - section.period_s
    until_s = min(max(end_s, failed_until_s), block[1])
    noticed_s = end_s if detected_s is None else start_s + detected_s
    spans = {
        "before": (block[0], start_s),
        "fault": (start_s, noticed_s),
        "degraded": (noticed_s, end_s),
        "recovery": (end_s, until_s),
        "after": (until_s, block[1]),
    }
    there = {name: span for name, span in spans.items() if span[1] > span[0]}
    return Course(start_s, end_s, there, detected_s, failure_s, recovered)


def periods(requests: pl.DataFrame, start_s: float, period_s: float) -> pl.DataFrame:
    """Requests by logging period: `period` (0 begins with the fault), requests, ok, mean_ms, and
    those that were not answered well by outcome group, ascending. Whole periods or parts."""
    at = ((pl.col("intended_s") - start_s) / period_s).floor().cast(pl.Int64)
    return (
        requests.group_by(at.alias("period"))
        .agg(
            pl.len().alias("requests"),
            (pl.col("outcome") == OK).sum().alias("ok"),
            pl.col("latency_ms").mean().alias("mean_ms"),
        )
        .sort("period")
    )


def _failure_s(
    found: pl.DataFrame, window: tuple[float, float], section: PerformabilitySection
) -> float:
    share = pl.col("ok") / pl.col("requests")
    before = found.filter(pl.col("period") < 0).with_columns(share.alias("share"))
    if before.height == 0:
        return 0.0
    worst_ms = float(before["mean_ms"].max() or 0.0)  # type: ignore[arg-type]
    worst_share = float(before["share"].min() or 0.0)  # type: ignore[arg-type]
    bad = found.filter(
        (pl.col("period") >= 0)
        & (
            (pl.col("mean_ms") > section.slow_factor * worst_ms)
            | (share < worst_share - section.lost_share)
        )
    )["period"].to_list()
    fault_periods = math.ceil((window[1] - window[0]) / section.period_s)
    last = None
    for period in bad:
        if period - max(fault_periods - 1, -1 if last is None else last) > CALM_PERIODS:
            break
        last = period
    return 0.0 if last is None else (last + 1) * section.period_s


def _given_up_s(struck: pl.DataFrame, window: tuple[float, float]) -> float | None:
    """When the arbiter first told the machine dead while the fault lasted."""
    dead = struck.filter(~pl.col("alive") & pl.col("time_s").is_between(*window, closed="left"))[
        "time_s"
    ]
    return None if dead.is_empty() else float(dead.min()) - window[0]  # type: ignore[arg-type]
