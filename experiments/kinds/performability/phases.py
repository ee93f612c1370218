"""Phases of a block with one fault: before, fault, degraded, recovery, reset, after.

| phase | from | to |
|---|---|---|
| before | the end of the warm-up | the fault |
| fault | the fault | the moment when the arbiter gives up the faulty machine, or the fault's end |
| degraded | that moment | the fault's end |
| recovery | the fault's end | the operator's restart, else the end of the failure |
| reset | the operator's restart (operator.py) | when all serve again and the failure is over |
| after | the end of all that | the end of the block |

The **failure** is the time in which users are affected; its duration differs from the fault's
(Broadwell 2004, Table 2). It lasts from the fault to the end of the last failed period. A period is
failed if its mean latency is above `slow_factor` times that of the worst period before the fault,
and above `unfelt_ms`, or if its share of good answers is `lost_share` below that of the worst one.
Requests from before the fault that were not answered before it count neither before nor after. A
failed request enters the mean with its duration, because the share judges it. A failed period more
than CALM_PERIODS after fault, restart and failure is a separate spike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from core.statistics.percentiles import OK
from experiments.kinds.performability.section import PerformabilitySection

PHASES = ("before", "fault", "degraded", "recovery", "reset", "after")
CALM_PERIODS = 5
WHAT = "operator"  # of the event of an operator's restart


@dataclass(frozen=True)
class Course:
    """The outcome of one block. Times in seconds since the run began."""

    start_s: float  # the fault
    end_s: float
    spans: dict[str, tuple[float, float]]  # by phase, without phases that did not occur
    detected_s: float | None  # after the fault's begin
    reset_s: float | None  # after the fault's begin, where an operator restarted the tier
    failure_s: float
    recovered: bool  # before the block's end; if not, failure_s is a lower bound

    @property
    def failure(self) -> tuple[float, float]:
        """Begin and end of fault and failure, whichever ends later; versions are compared by it."""
        return self.start_s, max(self.end_s, self.start_s + self.failure_s)


def course(
    requests: pl.DataFrame,
    window: tuple[float, float],
    block: tuple[float, float],
    struck: pl.DataFrame,
    section: PerformabilitySection,
    reset: tuple[float, float] | None = None,
) -> Course:
    """Return the phases of a block.

    Parameters: requests of the block, prepared; window, begin and end of the fault [s]; block,
    begin and end of its measured part [s]; struck, the arbiter's rows of the struck machine
    (`time_s`, `alive`), none where no arbiter knows it; reset, begin of the operator's restart
    and the time when all served [s].
    """
    start_s, end_s = window
    over_s = end_s if reset is None else max(end_s, reset[1])
    untouched = requests.filter(pl.col("done_s") < start_s)
    before = periods(untouched, start_s, section.period_s)
    after = periods(requests.filter(pl.col("intended_s") >= start_s), start_s, section.period_s)
    failure_s = _failure_s(before, after, over_s - start_s, section)
    detected_s = _given_up_s(struck, window)
    failed_until_s = start_s + failure_s
    recovered = failed_until_s < block[1] - section.period_s
    until_s = min(max(over_s, failed_until_s), block[1])
    reset_at_s = until_s if reset is None else min(reset[0], until_s)
    noticed_s = end_s if detected_s is None else start_s + detected_s
    spans = {
        "before": (block[0], start_s),
        "fault": (start_s, noticed_s),
        "degraded": (noticed_s, end_s),
        "recovery": (end_s, reset_at_s),
        "reset": (reset_at_s, until_s),
        "after": (until_s, block[1]),
    }
    occurring = {name: span for name, span in spans.items() if span[1] > span[0]}
    reset_s = None if reset is None else reset[0] - start_s
    return Course(start_s, end_s, occurring, detected_s, reset_s, failure_s, recovered)


def periods(requests: pl.DataFrame, start_s: float, period_s: float) -> pl.DataFrame:
    """Group requests by logging period: `period` (0 begins with the fault), requests, ok, mean_ms
    of their time, and the list of their outcomes, ascending. A period may be incomplete."""
    period = ((pl.col("intended_s") - start_s) / period_s).floor().cast(pl.Int64)
    return (
        requests.group_by(period.alias("period"))
        .agg(
            pl.len().alias("requests"),
            (pl.col("outcome") == OK).sum().alias("ok"),
            pl.col("waited_ms").mean().alias("mean_ms"),
            pl.col("outcome").alias("outcomes"),
        )
        .sort("period")
    )


def _failure_s(
    before: pl.DataFrame, after: pl.DataFrame, disturbed_s: float, section: PerformabilitySection
) -> float:
    if before.height == 0:
        return 0.0
    share = pl.col("ok") / pl.col("requests")
    worst_ms = float(before["mean_ms"].max() or 0.0)  # type: ignore[arg-type]
    worst_share = float((before["ok"] / before["requests"]).min() or 0.0)  # type: ignore[arg-type]
    slow_ms = max(section.unfelt_ms, section.slow_factor * worst_ms)
    failed_periods = after.filter(
        (pl.col("mean_ms") > slow_ms) | (share < worst_share - section.lost_share)
    )["period"].to_list()
    fault_periods = math.ceil(disturbed_s / section.period_s)
    last_period = None
    for period in failed_periods:
        calm_from = max(fault_periods - 1, -1 if last_period is None else last_period)
        if period - calm_from > CALM_PERIODS:
            break
        last_period = period
    return 0.0 if last_period is None else (last_period + 1) * section.period_s


def _given_up_s(struck: pl.DataFrame, window: tuple[float, float]) -> float | None:
    """Return the time at which the arbiter first reported the machine dead during the fault."""
    dead = struck.filter(~pl.col("alive") & pl.col("time_s").is_between(*window, closed="left"))[
        "time_s"
    ]
    return None if dead.is_empty() else float(dead.min()) - window[0]  # type: ignore[arg-type]
