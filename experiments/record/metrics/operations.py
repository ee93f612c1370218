"""Figures of each operation, and of each kind of session, arm by arm.

An interval of a percentile is the inverse of that of the share beyond it (Woodruff 1952, JASA 47):
the percentiles at both ends of that share's interval, which allows for blocks and bursts
(`core.statistics.shares`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from core.statistics.percentiles import OK, percentile
from core.statistics.shares import effect, share_interval, slowest
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.metrics.sessions import whole_sessions
from experiments.record.metrics.slo import block_positions

NAMES_MAX = 60  # operations that a table can show; a workload of a million keys has none
CONFIDENCE = 0.95
_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_REASONS_MAX = 5


def operation_figures(
    requests: pl.DataFrame, arms: Sequence[str], *, block_s: float
) -> dict[str, dict[str, dict[str, dict[str, object]]]]:
    """Return the figures by `operations` and `sessions`, then by name and arm.

    Empty if there are too many names. Parameters: requests as `prepared`, without the warm-up;
    block_s as in `slo_verdict`.
    """
    sessions = whole_sessions(requests)
    return {
        "operations": _figures_by_name(requests, arms, block_s),
        "sessions": _figures_by_name(sessions, arms, block_s),
    }


def _figures_by_name(
    requests: pl.DataFrame, arms: Sequence[str], block_s: float
) -> dict[str, dict[str, dict[str, object]]]:
    names = requests["name"].unique(maintain_order=True).sort().to_list()
    if len(names) > NAMES_MAX:
        return {}
    return {
        name: {
            arm: _figures(rows, block_s)
            for arm in arms
            if (rows := requests.filter((pl.col("name") == name) & (pl.col("arm") == arm))).height
        }
        for name in names
    }


def _figures(rows: pl.DataFrame, block_s: float) -> dict[str, object]:
    """Return count, errors, status codes, bytes and percentiles of one operation and arm."""
    latency_ms = rows["latency_ms"].to_numpy()
    ordered = np.sort(latency_ms)
    positions = block_positions(rows, block_s)
    figures: dict[str, object] = {
        "requests": rows.height,
        "errors": rows.filter(pl.col("outcome") != OK).height,
        "outcomes": _counts(rows["outcome"]),
        "status": _counts(rows.filter(pl.col("status") > 0)["status"]),
        "bytes": int(rows["bytes"].sum()),
        "reasons": dict(list(_counts(rows["reason"]).items())[:_REASONS_MAX])
        if "reason" in rows.columns
        else {},
    }
    for name, quantile in _QUANTILES.items():
        value = percentile(ordered, quantile)
        figures[f"{name}_ms"] = value
        beyond = latency_ms > value
        effects = [
            effect(flags, *positions) for flags in (beyond, slowest(latency_ms, 1.0 - quantile))
        ]
        low, high = share_interval(int(beyond.sum()), beyond.size, effects, CONFIDENCE)
        bounds = [percentile(ordered, 1.0 - share) for share in (high, low)]
        figures[f"{name}_ms_interval"] = bounds
    figures["insufficient"] = [
        name
        for name, quantile in _QUANTILES.items()
        if samples_beyond(quantile, rows.height) < SAMPLES_BEYOND_MIN
    ]
    return figures


def _counts(values: pl.Series) -> dict[str, int]:
    """Return the count of each value, the most frequent first; null does not count."""
    counts = values.drop_nulls().value_counts(sort=True, name="count")
    return {
        str(value): int(count)
        for value, count in counts.sort(
            ["count", values.name], descending=[True, False]
        ).iter_rows()
    }
