"""Statistics of one sample of latencies: percentiles with their evidence.

A mean hides the tail, and a percentile hides its number of samples, so each percentile has the
number of samples beyond it. With fewer than `SAMPLES_BEYOND_MIN` of them it is listed as
insufficient: it is shown, but nothing may be concluded from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from core.statistics.percentiles import percentile, rank_of
from experiments.record.metrics.weights import performability_weights

Floats = NDArray[np.float64]

QUANTILES: Mapping[str, float] = {
    "p50": 0.50,
    "p90": 0.90,
    "p95": 0.95,
    "p99": 0.99,
    "p99_9": 0.999,
}
SAMPLES_BEYOND_MIN = 10


class LatencyStatistics(TypedDict):
    """Of one sample; every statistic of an empty one is None and insufficient."""

    mean_ms: float | None
    trimmed_mean_ms: float | None
    sd_ms: float | None
    max_ms: float | None
    samples: int
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p99_9_ms: float | None
    samples_beyond: dict[str, int]
    insufficient: list[str]
    share_above_s: dict[str, float | None]


def samples_beyond(quantile: float, samples: int) -> int:
    """Return the number of `samples` that lie beyond the quantile's rank."""
    return samples - rank_of(quantile, samples) if samples else 0


def trimmed_mean(sorted_ms: Floats, keep: float) -> float | None:
    """Mean of the middle `keep` share: (1 - keep) / 2 of the samples are cut off at each end.

    Source: Broadwell 2004, section 2.1.4 (trimmed-mean latency, keep = 0.95).
    """
    if sorted_ms.size == 0:
        return None
    cut = math.floor(round((1.0 - keep) / 2.0 * sorted_ms.size, 9))
    return float(sorted_ms[cut : sorted_ms.size - cut].mean())


def share_above(latencies_ms: Floats, threshold_s: float) -> float | None:
    """Share of requests slower than a threshold, failed ones included (Broadwell 2004, 5.5)."""
    if latencies_ms.size == 0:
        return None
    return float(np.count_nonzero(latencies_ms > threshold_s * 1000.0) / latencies_ms.size)


def latency_statistics(latencies_ms: Floats) -> LatencyStatistics:
    """Mean, trimmed mean, spread, percentiles with their counts, and shares above the thresholds.

    Parameters: latencies_ms (n,) float [ms], every request as
    `core.statistics.percentiles` counts it; n >= 0.
    """
    weights = performability_weights()
    ordered = np.sort(np.asarray(latencies_ms, dtype=np.float64))
    count = int(ordered.size)
    beyond = {name: samples_beyond(quantile, count) for name, quantile in QUANTILES.items()}
    at_ms = {name: percentile(ordered, quantile) for name, quantile in QUANTILES.items()}
    return {
        "mean_ms": float(ordered.mean()) if count else None,
        "trimmed_mean_ms": trimmed_mean(ordered, weights.trimmed_mean_keep),
        "sd_ms": float(ordered.std(ddof=1)) if count > 1 else None,
        "max_ms": float(ordered[-1]) if count else None,
        "samples": count,
        "p50_ms": at_ms["p50"],
        "p90_ms": at_ms["p90"],
        "p95_ms": at_ms["p95"],
        "p99_ms": at_ms["p99"],
        "p99_9_ms": at_ms["p99_9"],
        "samples_beyond": beyond,
        "insufficient": [name for name, number in beyond.items() if number < SAMPLES_BEYOND_MIN],
        "share_above_s": {
            threshold_key(limit): share_above(ordered, limit) for limit in weights.thresholds_s
        },
    }


def threshold_key(threshold_s: float) -> str:
    """Return the name of a threshold in the result: "0.1", "1", "2"."""
    return f"{threshold_s:g}"
