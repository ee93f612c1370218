"""Checks requests.parquet's frame and fills in the latency of requests that never were sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from experiments.errors import InputError
from experiments.record.records import OUTCOMES, REQUESTS

WARM_UP = "warm-up"
OK = "ok"
DROPPED = "dropped"
ANSWERED = ("ok", "bad_status", "bad_content")
# Of an SLO's limits: the share of requests that may be slower.
ALLOWED = {"p50_ms": 0.5, "p90_ms": 0.1, "p95_ms": 0.05, "p99_ms": 0.01}

_RESPONSE_LIMIT_S = 6.0

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


def response_limit_ms(manifest: Mapping[str, Any]) -> float:
    """The longest time-out of the load, in ms: what a request that was never sent enters at."""
    load = (manifest.get("spec") or {}).get("load") or {}
    limits = [load.get("response_timeout_s"), load.get("connect_timeout_s")]
    return 1000.0 * max((float(limit) for limit in limits if limit), default=_RESPONSE_LIMIT_S)


def prepared(requests: pl.DataFrame, limit_ms: float) -> pl.DataFrame:
    """The requests with a latency for every row.

    A dropped request and any row without a latency enter at `limit_ms`: nothing that a user did
    not get may make the tail look better.
    Raises: InputError where a column is missing or an outcome is unknown.
    """
    missing = [name for name in _NEEDED if name not in requests.columns]
    if missing:
        raise InputError(
            "requests.parquet",
            expected=f"the columns {', '.join(_NEEDED)}",
            came=f"no {', '.join(missing)}",
            do="Was the run made by another version? Repeat it with this one.",
        )
    frame = requests.cast({name: REQUESTS[name] for name in _NEEDED})
    unknown = set(frame["outcome"].unique().to_list()) - set(OUTCOMES)
    if unknown:
        raise InputError(
            "requests.parquet, outcome",
            expected=" | ".join(OUTCOMES),
            came=", ".join(sorted(map(str, unknown))),
            do="Was the run made by another version? Repeat it with this one.",
        )
    latency = pl.col("latency_ms").fill_nan(None)
    return frame.with_columns(
        pl.when(pl.col("outcome") == DROPPED)
        .then(pl.lit(limit_ms))
        .otherwise(latency.fill_null(limit_ms))
        .alias("latency_ms"),
        pl.when(pl.col("outcome") == DROPPED)
        .then(None)
        .otherwise(pl.col("lag_ms").fill_nan(None))
        .alias("lag_ms"),
    )


def arm_names(requests: pl.DataFrame, manifest: Mapping[str, Any]) -> list[str]:
    """Arms in the order of the experiment, then any that only the data know."""
    asked = list((manifest.get("spec") or {}).get("arms") or {})
    seen = requests["arm"].unique(maintain_order=True).to_list()
    return asked + [name for name in seen if name not in asked]


def measured(requests: pl.DataFrame) -> pl.DataFrame:
    """All but the warm-up."""
    return requests.filter(pl.col("phase") != WARM_UP)
