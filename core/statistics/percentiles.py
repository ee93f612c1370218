"""The latency that a request counts with, and percentiles of latencies: one rule for all of them.

A user who is refused after 0.03 ms did not get a fast answer. If a failed request entered by the
time that it took, a service that refuses would have better percentiles than one that answers. So:

| request | counts with |
|---|---|
| answered well (`ok`) | its latency |
| answered badly, refused, cut off, timed out | the time-out, or its latency where that is longer |
| dropped, lost: without a latency | the time-out |

The time-out is the longer one of the load's two, to connect and to answer: so long a user was ready
to wait. A failure may take longer, since it waited for a connection first or left late; it is never
shortened. A good answer is not cut at the time-out either: it can be later by its connection.
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
    """The longest limit of the load [ms], of those to connect and to answer [s]."""
    return 1000.0 * max((float(limit) for limit in limits_s if limit), default=_TIME_OUT_S)


def time_out_of(manifest: Mapping[str, Any]) -> float:
    """The time-out of a run's load [ms], by its manifest."""
    load = (manifest.get("spec") or {}).get("load") or {}
    return time_out_ms(load.get("connect_timeout_s"), load.get("response_timeout_s"))


def counted_ms(outcome: str, latency_ms: float | None, limit_ms: float) -> float:
    """The latency that one request counts with [ms].

    Parameters: latency_ms as recorded, None or NaN where there is none; limit_ms, the time-out.
    """
    if latency_ms is None or math.isnan(latency_ms):
        return limit_ms
    return latency_ms if outcome == OK else max(latency_ms, limit_ms)


def counted(limit_ms: float) -> pl.Expr:
    """`counted_ms` of a table's `outcome` and `latency_ms`."""
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

    The rounding keeps 0.95 x 20 at rank 19, where binary fractions would give 20.
    """
    return max(1, math.ceil(round(quantile * samples, 9)))


def percentile(ordered: Floats, quantile: float) -> float | None:
    """The order statistic at `quantile` of an ascending sample; None of an empty one.

    Never interpolated: each percentile is a latency that a request counted with, as in an
    HdrHistogram. Interpolated are only quantiles of what nobody measured as such: of a bootstrap's
    draws, of a fitted law, of the axis of a figure.
    """
    if ordered.size == 0:
        return None
    return float(ordered[rank_of(quantile, ordered.size) - 1])


def percentile_of(values: pl.Series, quantile: float) -> float | None:
    """`percentile` of a table's column in any order; null does not count."""
    return percentile(values.drop_nulls().sort().to_numpy(), quantile)
