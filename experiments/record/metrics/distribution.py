"""Values of the distribution figures: the box plot's numbers and the CCDF's steps."""

from __future__ import annotations

import numpy as np

from core.statistics.percentiles import percentile
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, Floats

BOX_QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.50, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def box_plot(latencies_ms: Floats) -> dict[str, object] | None:
    """Box from the quartiles, whiskers from 5 % to 95 %, p99, mean and maximum; None if empty.

    Whiskers are at fixed percentiles, not at 1.5 inter-quartile ranges: latency is skewed, and the
    tail is the subject, so it must not be declared an outlier.
    """
    ordered = np.sort(np.asarray(latencies_ms, dtype=np.float64))
    if ordered.size == 0:
        return None
    box: dict[str, object] = {
        f"{name}_ms": percentile(ordered, quantile) for name, quantile in BOX_QUANTILES.items()
    }
    box["mean_ms"] = float(ordered.mean())
    box["max_ms"] = float(ordered[-1])
    box["samples"] = int(ordered.size)
    return box


def ccdf(latencies_ms: Floats, points_max: int = 400) -> list[dict[str, float]]:
    r"""Complementary distribution: the share of requests slower than x, P(X > x), at samples x.

    Parameters: latencies_ms (n,) float [ms]; points_max int, the steps kept.
    Returns: points ascending in latency_ms, share strictly descending and > 0 (the maximum, beyond
    which nothing lies, cannot stand on a log axis). `sufficient` is False where fewer than
    `SAMPLES_BEYOND_MIN` samples lie beyond. Steps are thinned evenly in log share: the tail stays
    whole.
    """
    ordered = np.sort(np.asarray(latencies_ms, dtype=np.float64))
    if ordered.size == 0:
        return []
    values, first = np.unique(ordered, return_index=True)
    beyond = ordered.size - np.append(first[1:], ordered.size)
    values, beyond = values[beyond > 0], beyond[beyond > 0]
    if values.size > points_max:
        targets = np.geomspace(1, beyond[0], points_max)
        indices = np.unique(np.searchsorted(-beyond, -targets).clip(0, values.size - 1))
        values, beyond = values[indices], beyond[indices]
    return [
        {
            "latency_ms": float(value),
            "share": float(count / ordered.size),
            "beyond": int(count),
            "sufficient": bool(count >= SAMPLES_BEYOND_MIN),
        }
        for value, count in zip(values, beyond, strict=True)
    ]
