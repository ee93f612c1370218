"""The latency that a request counts with, and percentiles of latencies: one rule for all of them.

A user who is refused after 0.03 ms did not get a fast answer. If a failed request counted with its
own duration, a service that refuses would have better percentiles than one that answers. So:

| request | counts with |
|---|---|
| answered well (`ok`) | its latency |
| answered badly, refused, cut off, timed out | the time-out, or its latency where that is longer |
| dropped, lost: without a latency | the time-out |

The time-out is the longer one of the load's two, to connect and to answer: the time that a user is
ready to wait. A failure may take longer, because it waited for a connection first or was sent late;
it is never shortened. A good answer is not cut at the time-out either: its connection can make it
later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from core.arrays import Floats

OK = "ok"  # the outcome of a request that was answered well

_TIME_OUT_S = 6.0  # of runs whose manifest does not say it


def time_out_ms(*limits_s: float | None) -> float:
    """Return the longest limit of the load [ms].

    Parameters: limits_s, to connect and to answer [s]; None or 0 does not count.
    """
    return 1000.0 * max((float(limit) for limit in limits_s if limit), default=_TIME_OUT_S)


def time_out_of(manifest: Mapping[str, Any]) -> float:
    """Return the time-out of a run's load [ms], from its manifest."""
    load = (manifest.get("spec") or {}).get("load") or {}
    return time_out_ms(load.get("connect_timeout_s"), load.get("response_timeout_s"))


def counted_ms(outcome: str, latency_ms: float | None, limit_ms: float) -> float:
    """Return the latency that one request counts with [ms].

    Parameters: outcome, `OK` or a failure; latency_ms as recorded [ms], None or NaN without one;
    limit_ms, the time-out [ms].
    """
    if latency_ms is None or math.isnan(latency_ms):
        return limit_ms
    return latency_ms if outcome == OK else max(latency_ms, limit_ms)


def counted(limit_ms: float) -> pl.Expr:
    """Return `counted_ms` [ms] as an expression of a table's columns `outcome` and `latency_ms`.

    Parameters: limit_ms, the time-out [ms].
    """
    import polars as pl

    recorded = pl.col("latency_ms").fill_nan(None)
    limit = pl.lit(limit_ms)
    return (
        pl.when(pl.col("outcome") == OK)
        .then(recorded.fill_null(limit))
        .otherwise(pl.max_horizontal(recorded, limit))
    )


def rank_of(quantile: float, samples: int) -> int:
    """Nearest rank of a quantile, from 1: the smallest k with k / samples >= quantile.

    Parameters: quantile in [0, 1]; samples >= 1. The rounding keeps 0.95 x 20 at rank 19, where
    binary fractions would give 20.
    """
    return max(1, math.ceil(round(quantile * samples, 9)))


def percentile(ordered: Floats, quantile: float) -> float | None:
    """Return the order statistic at `quantile` of an ascending sample; None of an empty one.

    Parameters: ordered (n,), ascending, in any unit; quantile in [0, 1]. Returns the same unit.

    It never interpolates: each percentile is a latency that a request counted with, as in an
    HdrHistogram. Only quantiles of values that are no measurements are interpolated elsewhere: of a
    bootstrap's draws, of a fitted law, of the axis of a figure.
    """
    if ordered.size == 0:
        return None
    return float(ordered[rank_of(quantile, ordered.size) - 1])


def percentile_of(values: pl.Series, quantile: float) -> float | None:
    """Return `percentile` of a table's column, in any order; null does not count."""
    return percentile(values.drop_nulls().sort().to_numpy(), quantile)
