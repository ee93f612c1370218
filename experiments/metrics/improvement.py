r"""Improvement factors (baseline / spare) and how far they can be believed.

What a run gives: K pairs of blocks. Within a pair both arms get the same arrivals, one block right
after the other; the order alternates (ABBA). Requests close in time are not independent (one burst
of interference slows dozens of them), and pairs may differ by more than chance within them (the
host drifts). A bootstrap over single requests ignores both and gives intervals that are far too
narrow; a bootstrap over the K pairs alone, with K = 2, has three distinct outcomes and halves the
variance. So:

1. Within a pair, moving blocks of time are drawn with replacement, circularly and separately in
   each phase (Kuensch 1989; Politis & Romano 1992): the same stretches of the schedule in both
   arms, which pairs the requests by their arrival index. V_w is the variance of log(factor) so.
2. In addition the pairs themselves are drawn with replacement (two-stage bootstrap, Davison &
   Hinkley 1997, section 3.8). V_h is the variance of log(factor) so.
3. A bootstrap of few clusters is too small by (m - 1) / m, so both parts are corrected:
       within  W = V_w m / (m - 1),             m blocks of time per pair,      K (m - 1) d.o.f.
       between B = max(0, V_h - V_w) K / (K-1),                                 K - 1 d.o.f.
   and added. What varies within pairs shows up between them too, so the sum errs to the wide side.
4. The interval is log(factor) +- t sqrt(W + B), t from Student's distribution with Satterthwaite's
   degrees of freedom (W + B)^2 / (W^2 / (K (m-1)) + B^2 / (K-1)).
   Where the pairs agree, this is close to the normal interval; where two pairs disagree it opens
   wide, as it must with one degree of freedom.

With one pair B cannot be seen: the interval then holds for this pair only and says so.
A simulation in tests/test_metrics_improvement.py measures the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from experiments.metrics.latency import SAMPLES_BEYOND_MIN, Floats, rank_of, samples_beyond

CONFIDENCE = 0.95
DRAWS_MAX = 600
DRAWS_MIN = 200
_DRAWN_SAMPLES_MAX = 40_000_000
_BLOCKS_PER_STRATUM_MIN = 5

Statistic = Callable[[Floats], float]


def _quantile_statistic(quantile: float) -> Statistic:
    def statistic(sample: Floats) -> float:
        rank = rank_of(quantile, sample.size) - 1
        return float(np.partition(sample, rank)[rank])

    return statistic


STATISTICS: Mapping[str, tuple[Statistic, float | None]] = {
    "mean": (lambda sample: float(sample.mean()), None),
    "p95": (_quantile_statistic(0.95), 0.95),
    "p99": (_quantile_statistic(0.99), 0.99),
}


@dataclass(frozen=True)
class Stratum:
    """One phase of one pair: both arms' latencies over the same stretch of the schedule.

    `at_s` counts from the first arrival of the phase, ascending, all below `length_s`.
    """

    length_s: float
    baseline_at_s: Floats
    baseline_ms: Floats
    spare_at_s: Floats
    spare_ms: Floats


Pair = Sequence[Stratum]


def pairs_of(requests: pl.DataFrame, baseline: str, spare: str) -> list[list[Stratum]]:
    """The complete pairs of a run, phase by phase, restricted to arrivals that both arms had.

    Parameters: requests with columns arm, repeat, pair, phase, index, intended_s, latency_ms
    (n rows), without the warm-up.
    Returns: one list of strata per pair; a pair or phase that lacks an arm is left out.
    """
    pairs: list[list[Stratum]] = []
    for _, rows in requests.sort("pair").group_by("pair", maintain_order=True):
        strata: list[Stratum] = []
        for _, phase_rows in rows.group_by("phase", maintain_order=True):
            stratum = _stratum(phase_rows, baseline, spare)
            if stratum is not None:
                strata.append(stratum)
        if strata:
            pairs.append(strata)
    return pairs


def improvement(
    pairs: Sequence[Pair], *, block_s: float, rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """Factor and confidence interval of mean, p95 and p99; above 1, the spare arm is faster.

    Parameters: pairs from `pairs_of`, K >= 0; block_s float [s] > 0, the length of the moving
    blocks, about as long as what is correlated (a burst of interference); rng for the draws.
    Returns: {name: {factor, ci_low, ci_high, confidence, pairs, samples, insufficient, note}};
    factor and interval are None where no complete pair exists.
    """
    samples = min(
        sum(stratum.baseline_ms.size for pair in pairs for stratum in pair),
        sum(stratum.spare_ms.size for pair in pairs for stratum in pair),
    )
    if samples == 0:
        return {name: _unknown("no arrivals that both arms measured") for name in STATISTICS}
    base, spare = _pooled(pairs)
    draws = _draw_count(base.size + spare.size)
    within = _log_factors(pairs, draws, block_s, rng, resample_pairs=False)
    both = _log_factors(pairs, draws, block_s, rng, resample_pairs=True)
    blocks = _blocks_per_pair(pairs, block_s)
    result = {}
    for name, (statistic, quantile) in STATISTICS.items():
        entry = _interval(
            _factor(statistic(base), statistic(spare)), within[name], both[name], len(pairs), blocks
        )
        entry["samples"] = samples
        beyond = None if quantile is None else samples_beyond(quantile, samples)
        entry["insufficient"] = beyond is not None and beyond < SAMPLES_BEYOND_MIN
        result[name] = entry
    return result


def _stratum(rows: pl.DataFrame, baseline: str, spare: str) -> Stratum | None:
    arms = [rows.filter(pl.col("arm") == arm) for arm in (baseline, spare)]
    common = set(arms[0]["index"].to_list()) & set(arms[1]["index"].to_list())
    if not common:
        return None
    columns: list[Floats] = []
    for arm in arms:
        kept = arm.filter(pl.col("index").is_in(list(common))).sort("intended_s")
        at_s = kept["intended_s"].to_numpy().astype(np.float64)
        columns += [at_s - at_s[0], kept["latency_ms"].to_numpy().astype(np.float64)]
    last_s = max(columns[0][-1], columns[2][-1])
    mean_gap_s = last_s / max(1, columns[0].size - 1)
    length_s = float(last_s + mean_gap_s) or 1.0
    return Stratum(length_s, columns[0], columns[1], columns[2], columns[3])


def _pooled(pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
    strata = [stratum for pair in pairs for stratum in pair]
    return (
        np.concatenate([stratum.baseline_ms for stratum in strata]),
        np.concatenate([stratum.spare_ms for stratum in strata]),
    )


def _draw_count(samples: int) -> int:
    """Fewer draws of larger runs: they bound the work, and their variance needs fewer."""
    return int(min(DRAWS_MAX, max(DRAWS_MIN, _DRAWN_SAMPLES_MAX // max(1, samples))))


def _block_length_s(stratum: Stratum, block_s: float) -> float:
    return min(block_s, stratum.length_s / _BLOCKS_PER_STRATUM_MIN)


def _blocks_per_pair(pairs: Sequence[Pair], block_s: float) -> float:
    """Mean number of blocks of time that do not overlap, per pair."""
    counts = [
        sum(stratum.length_s / _block_length_s(stratum, block_s) for stratum in pair)
        for pair in pairs
    ]
    return float(np.mean(counts))


def _log_factors(
    pairs: Sequence[Pair],
    draws: int,
    block_s: float,
    rng: np.random.Generator,
    *,
    resample_pairs: bool,
) -> dict[str, Floats]:
    """log(baseline / spare) of each statistic in each bootstrap draw, (draws,) per statistic."""
    result = {name: np.empty(draws) for name in STATISTICS}
    for draw in range(draws):
        chosen = rng.integers(len(pairs), size=len(pairs)) if resample_pairs else range(len(pairs))
        base: list[Floats] = []
        spare: list[Floats] = []
        for which in chosen:
            for stratum in pairs[which]:
                _draw_blocks(stratum, block_s, rng, base, spare)
        base_ms, spare_ms = np.concatenate(base), np.concatenate(spare)
        for name, (statistic, _) in STATISTICS.items():
            factor = None
            if base_ms.size and spare_ms.size:
                factor = _factor(statistic(base_ms), statistic(spare_ms))
            result[name][draw] = math.nan if factor is None else math.log(factor)
    return result


def _draw_blocks(
    stratum: Stratum,
    block_s: float,
    rng: np.random.Generator,
    base: list[Floats],
    spare: list[Floats],
) -> None:
    """One circular moving-block sample of a stratum: the same stretches of time in both arms."""
    length_s = _block_length_s(stratum, block_s)
    left_s = stratum.length_s
    while left_s > 1e-9:
        start_s = float(rng.uniform(0.0, stratum.length_s))
        end_s = start_s + min(length_s, left_s)
        for at_s, latency_ms, into in (
            (stratum.baseline_at_s, stratum.baseline_ms, base),
            (stratum.spare_at_s, stratum.spare_ms, spare),
        ):
            low, high = np.searchsorted(at_s, (start_s, end_s))
            into.append(latency_ms[low:high])
            if end_s > stratum.length_s:
                wrapped = np.searchsorted(at_s, end_s - stratum.length_s)
                into.append(latency_ms[:wrapped])
        left_s -= length_s


def _factor(baseline: float, spare: float) -> float | None:
    return baseline / spare if baseline > 0.0 and spare > 0.0 else None


def _interval(
    factor: float | None, within: Floats, both: Floats, pairs: int, blocks: float
) -> dict[str, Any]:
    """Steps 3 and 4 of the module's method."""
    if factor is None:
        return _unknown("a latency of zero has no ratio")
    variance_within = float(np.nanvar(within, ddof=1))
    w = variance_within * blocks / (blocks - 1.0)
    w_freedom = pairs * (blocks - 1.0)
    b = 0.0
    if pairs > 1:
        b = max(0.0, float(np.nanvar(both, ddof=1)) - variance_within) * pairs / (pairs - 1.0)
    total = w + b
    half_width = 0.0
    if total > 0.0:
        freedom = total**2 / (w**2 / w_freedom + (b**2 / (pairs - 1.0) if b else 0.0))
        half_width = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, freedom)) * math.sqrt(total)
    return {
        "factor": factor,
        "ci_low": factor * math.exp(-half_width),
        "ci_high": factor * math.exp(min(half_width, 50.0)),
        "confidence": CONFIDENCE,
        "pairs": pairs,
        "note": "" if pairs > 1 else "one pair: what varies between pairs is not in the interval",
    }


def _unknown(note: str) -> dict[str, Any]:
    return {
        "factor": None,
        "ci_low": None,
        "ci_high": None,
        "confidence": CONFIDENCE,
        "pairs": 0,
        "samples": 0,
        "insufficient": True,
        "note": note,
    }
