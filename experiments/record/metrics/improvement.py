"""Improvement factors (baseline / other) with their intervals, over the pairs of blocks of a run.

Within a pair both arms get the same arrivals, one block right after the other; the order alternates
(ABBA). `bootstrap.py` has the method and its coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import numpy as np
import polars as pl

from experiments.record.metrics.bootstrap import (
    CONFIDENCE,
    Block,
    Stratum,
    Value,
    intervals,
    quantile_value,
    stratum,
)
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, Floats, samples_beyond

STATISTICS: Mapping[str, tuple[Callable[[Floats], float], float | None]] = {
    "p95": (quantile_value(0.95), 0.95),
    "p50": (quantile_value(0.50), 0.50),
    "mean": (lambda sample: float(sample.mean()), None),
    "p99": (quantile_value(0.99), 0.99),
}
# Only where enough samples lie beyond it: most runs have a thousand requests an arm.
OF_MANY: Mapping[str, tuple[Callable[[Floats], float], float]] = {
    "p99_9": (quantile_value(0.999), 0.999)
}


class Factor(TypedDict):
    """Baseline over other with its interval and number of complete pairs; None with a note."""

    factor: float | None
    ci_low: float | None
    ci_high: float | None
    confidence: float
    pairs: int
    samples: int
    samples_beyond: int | None
    insufficient: bool
    note: str


def pairs_of(requests: pl.DataFrame, baseline: str, other: str) -> list[list[Stratum]]:
    """Return the complete pairs of a run, phase by phase, with only the arrivals of both arms.

    Parameters: requests with columns arm, repeat, pair, phase, index, intended_s, latency_ms
    (n rows), without the warm-up.
    Returns: one list of strata per pair; a pair or phase that lacks an arm is left out.
    """
    pairs: list[list[Stratum]] = []
    for _, rows in requests.sort("pair").group_by("pair", maintain_order=True):
        strata: list[Stratum] = []
        for _, phase_rows in rows.group_by("phase", maintain_order=True):
            arms = [phase_rows.filter(pl.col("arm") == arm) for arm in (baseline, other)]
            common = list(set(arms[0]["index"].to_list()) & set(arms[1]["index"].to_list()))
            if common:
                strata.append(stratum([arm.filter(pl.col("index").is_in(common)) for arm in arms]))
        if strata:
            pairs.append(strata)
    return pairs


def improvement(
    pairs: Sequence[Block],
    *,
    block_s: float,
    rng: np.random.Generator,
    level: float = 1.0 - CONFIDENCE,
) -> dict[str, Factor]:
    """Return factor and confidence interval of each statistic; above 1, the other arm is faster.

    Parameters: pairs from `pairs_of`, K >= 0; block_s float [s] > 0 and rng as in `intervals`;
    level, of the look that ended the run if there were looks: then the intervals of all looks
    together hold with `confidence`.
    Returns: by statistic, p99_9 only from 10,000 requests an arm on.
    """
    samples = min(
        sum(stratum.arms[arm].latency_ms.size for pair in pairs for stratum in pair)
        for arm in (0, 1)
    )
    if samples == 0:
        return no_improvement("no arrivals that both arms measured")
    statistics = {**STATISTICS}
    for name, (statistic, share) in OF_MANY.items():
        if samples_beyond(share, samples) >= SAMPLES_BEYOND_MIN:
            statistics[name] = (statistic, share)
    values = {name: ratio_of(statistic) for name, (statistic, _) in statistics.items()}
    estimates = intervals(pairs, values, block_s=block_s, rng=rng, level=level)
    note = "" if len(pairs) > 1 else "one pair: what varies between pairs is not in the interval"
    result: dict[str, Factor] = {}
    for name, (_, quantile) in statistics.items():
        interval = estimates[name]
        entry = _unknown("a latency of zero has no ratio")
        if interval is not None:
            entry["factor"], entry["ci_low"], entry["ci_high"] = interval
            entry["pairs"], entry["note"] = len(pairs), note
        entry["samples"] = samples
        beyond = None if quantile is None else samples_beyond(quantile, samples)
        entry["samples_beyond"] = beyond
        entry["insufficient"] = beyond is not None and beyond < SAMPLES_BEYOND_MIN
        result[name] = entry
    return result


def no_improvement(note: str) -> dict[str, Factor]:
    """Return the result of `improvement` without factors, with the reason as note."""
    return {name: _unknown(note) for name in STATISTICS}


def ratio_of(statistic: Callable[[Floats], float]) -> Value:
    """Return baseline / other of a statistic; None if either is zero."""

    def value(arms: Sequence[Floats]) -> float | None:
        baseline, other = (statistic(arm) for arm in arms)
        return baseline / other if baseline > 0.0 and other > 0.0 else None

    return value


def _unknown(note: str) -> Factor:
    return {
        "factor": None,
        "ci_low": None,
        "ci_high": None,
        "confidence": CONFIDENCE,
        "pairs": 0,
        "samples": 0,
        "samples_beyond": None,
        "insufficient": True,
        "note": note,
    }
