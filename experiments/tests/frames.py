"""Rows of requests.parquet: a test states only the columns that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from experiments.record.records import REQUESTS

_GOOD = {
    "arm": "baseline", "repeat": 0, "pair": 0, "phase": "measure", "user": "u", "name": "n",
    "latency_ms": 100.0, "lag_ms": 0.1, "outcome": "ok", "status": 200, "bytes": 1,
}  # fmt: skip


def requests(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one request a second; columns not stated are those of a good request of 100 ms."""
    return pl.DataFrame([_row(index, row) for index, row in enumerate(rows)], schema=REQUESTS)


def _row(index: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    row = {"index": index, "intended_s": float(index), **_GOOD, **fields}
    late_s = None if row["latency_ms"] is None else row["latency_ms"] / 1e3
    done_s = None if late_s is None else row["intended_s"] + late_s
    return {"sent_s": row["intended_s"], "done_s": done_s, **row}
