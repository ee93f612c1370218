"""Checks of requests.parquet's frame, and the counted latency of each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from core.errors import InputError
from core.statistics.percentiles import counted
from experiments.record.records import OUTCOMES, REQUESTS

DROPPED = "dropped"
ANSWERED = ("ok", "bad_status", "bad_content")
# Of an SLO's limits: the share of requests that may be slower.
ALLOWED = {"p50_ms": 0.5, "p90_ms": 0.1, "p95_ms": 0.05, "p99_ms": 0.01}

_NEEDED = (
    "arm",
    "repeat",
    "pair",
    "phase",
    "index",
    "intended_s",
    "done_s",
    "latency_ms",
    "lag_ms",
    "outcome",
)


def prepared(requests: pl.DataFrame, limit_ms: float) -> pl.DataFrame:
    """Return the requests with two latencies for every row.

    Parameters: limit_ms, the load's time-out.
    Returns: `latency_ms` is the counted latency (`core.statistics.percentiles`): an answer that the
    user did not get counts as the time-out. `waited_ms` is the duration whatever the outcome, for
    figures that count failures separately; the time-out of a request that was never sent.
    Raises: InputError if a column is missing or an outcome is unknown.
    """
    missing = [name for name in _NEEDED if name not in requests.columns]
    if missing:
        raise InputError(
            "requests.parquet",
            expected=f"the columns {', '.join(_NEEDED)}",
            got=f"no {', '.join(missing)}",
            hint="Was the run made by another version? Repeat it with this one.",
        )
    frame = requests.cast({name: REQUESTS[name] for name in _NEEDED})
    unknown = set(frame["outcome"].unique().to_list()) - set(OUTCOMES)
    if unknown:
        raise InputError(
            "requests.parquet, outcome",
            expected=" | ".join(OUTCOMES),
            got=", ".join(sorted(map(str, unknown))),
            hint="Was the run made by another version? Repeat it with this one.",
        )
    return frame.with_columns(
        counted(limit_ms).alias("latency_ms"),
        pl.col("latency_ms").fill_nan(None).fill_null(limit_ms).alias("waited_ms"),
        pl.when(pl.col("outcome") == DROPPED)
        .then(None)
        .otherwise(pl.col("lag_ms").fill_nan(None))
        .alias("lag_ms"),
    )


def spans_of(requests: pl.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """Return each arm's blocks: from first to last arrival [s]."""
    ends = requests.group_by("arm", "repeat").agg(
        pl.col("intended_s").min().alias("start_s"), pl.col("intended_s").max().alias("end_s")
    )
    spans: dict[str, list[tuple[float, float]]] = {}
    for arm, _, start_s, end_s in ends.sort("start_s").iter_rows():
        spans.setdefault(arm, []).append((start_s, end_s))
    return spans


def arm_names(requests: pl.DataFrame, manifest: Mapping[str, Any]) -> list[str]:
    """Return the arms in the order of the experiment, then any that only the data have."""
    planned = list((manifest.get("spec") or {}).get("arms") or {})
    recorded = requests["arm"].unique(maintain_order=True).to_list()
    return planned + [name for name in recorded if name not in planned]
