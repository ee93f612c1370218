r"""Intervals of a figure of a run's latencies.

A run has K blocks, or pairs of blocks of two arms. Requests close in time are not
independent (one burst of interference slows dozens of them), and blocks may differ by more than
chance within them (the host drifts). A bootstrap over single requests ignores both and gives
intervals that are far too narrow; a bootstrap over the K blocks alone, with K = 2, has three
distinct outcomes and halves the variance. So, for a figure f > 0 (a percentile of one arm; or the
ratio of two arms' percentiles, where a block below is a pair of them):

1. Within a block, moving stretches of time are drawn with replacement, circularly and separately
   in each phase (Kuensch 1989; Politis & Romano 1992): the same stretches of the schedule in both
   arms of a pair. V_w is the resulting variance of log f.
2. In addition the blocks themselves are drawn with replacement (two-stage bootstrap, Davison &
   Hinkley 1997, section 3.8). V_h is the resulting variance of log f.
3. A bootstrap of few clusters is too small by (m - 1) / m, so both parts are corrected:
       within  W = V_w m / (m - 1),             m stretches of time per block,  K (m - 1) d.o.f.
       between B = max(0, V_h - V_w) K / (K-1),                                 K - 1 d.o.f.
   and added. What varies within blocks shows up between them too, so the sum errs to the wide side.
4. The interval is log f +- t sqrt(W + B), t from Student's distribution with Satterthwaite's
   degrees of freedom (W + B)^2 / (W^2 / (K (m-1)) + B^2 / (K-1)).
   If the blocks agree, this is close to the normal interval; if two blocks disagree it is wide,
   because it has one degree of freedom.

With one block B cannot be estimated: the interval then holds for this block only.
Simulations in tests/unit/record/test_metrics{,_predicted}.py measure the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from core.statistics.percentiles import rank_of
from experiments.record.metrics.latency import Floats

CONFIDENCE = 0.95
DRAWS_MAX = 600
DRAWS_MIN = 200
_DRAWN_SAMPLES_MAX = 40_000_000
STRETCHES_MIN = 5  # of a block
_BLOCK_S = 10.0  # where a design has no neighbours
_CELLS_MAX = 4_000_000  # requests times draws that are counted at once


def student_half(values: Any) -> float:
    """Return half of Student's interval of the mean of values that are independent, two or more."""
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(values) - 1) * stats.sem(values))


@dataclass(frozen=True)
class Sample:
    """One arm's latencies; `at_s` counts from the first arrival of the phase, ascending."""

    at_s: Floats
    latency_ms: Floats


@dataclass(frozen=True)
class Stratum:
    """One phase of one block: each arm's latencies over the same `length_s` of the schedule."""

    length_s: float
    arms: tuple[Sample, ...]


Block = Sequence[Stratum]
Value = Callable[[Sequence[Floats]], float | None]  # of each arm's latencies [ms]; None: unknown


def correlated_s(manifest: Mapping[str, Any]) -> float:
    """Return about the length of a disturbance: a neighbour's mean run [s]."""
    interference = (manifest.get("spec") or {}).get("interference") or {}
    return float(interference.get("mean_run_s") or _BLOCK_S)


def seeded(manifest: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator for bootstraps, from the run's seed."""
    seed = manifest.get("seed")
    return np.random.default_rng(seed if isinstance(seed, int) and seed >= 0 else 0)


def quantile_value(quantile: float) -> Callable[[Floats], float]:
    """Return the order statistic at a quantile, of a sample that need not be sorted."""

    def value(latencies_ms: Floats) -> float:
        rank = rank_of(quantile, latencies_ms.size) - 1
        return float(np.partition(latencies_ms, rank)[rank])

    return value


def stratum(arms: Sequence[pl.DataFrame]) -> Stratum:
    """Return a stratum of each arm's requests (intended_s, latency_ms), none of them empty."""
    samples = []
    for rows in arms:
        ordered = rows.sort("intended_s")
        at_s = ordered["intended_s"].to_numpy().astype(np.float64)
        latency_ms = ordered["latency_ms"].to_numpy().astype(np.float64)
        samples.append(Sample(at_s - at_s[0], latency_ms))
    last_s = max(float(sample.at_s[-1]) for sample in samples)
    mean_gap_s = last_s / max(1, samples[0].at_s.size - 1)
    return Stratum(float(last_s + mean_gap_s) or 1.0, tuple(samples))


def pooled(blocks: Sequence[Block]) -> list[Floats]:
    """Return each arm's latencies over all blocks."""
    strata = [stratum for block in blocks for stratum in block]
    arms = len(strata[0].arms)
    return [np.concatenate([part.arms[arm].latency_ms for part in strata]) for arm in range(arms)]


def intervals(
    blocks: Sequence[Block],
    values: Mapping[str, Value],
    *,
    block_s: float,
    rng: np.random.Generator,
    level: float = 1.0 - CONFIDENCE,
) -> dict[str, tuple[float, float, float] | None]:
    """Return each value of the pooled blocks with its interval (value, low, high).

    Parameters: blocks K >= 1 with requests in them; values > 0; block_s float [s] > 0, the length
    of the moving stretches, about that of a correlated stretch (a burst of interference); level in
    (0, 1), the share of intervals that may miss.
    Returns: None if the value is not known.
    """
    latencies_ms = pooled(blocks)
    draws = _draw_count(sum(arm.size for arm in latencies_ms))
    within = _log_values(blocks, values, draws, block_s, rng, resample_blocks=False)
    within_and_between = _log_values(blocks, values, draws, block_s, rng, resample_blocks=True)
    stretches = _stretches_per_block(blocks, block_s)
    estimates: dict[str, tuple[float, float, float] | None] = {}
    for name, value in values.items():
        estimate = value(latencies_ms)
        estimates[name] = None
        if estimate is not None:
            half_width = _half_width(
                within[name], within_and_between[name], len(blocks), stretches, level
            )
            low, high = math.exp(-half_width), math.exp(min(half_width, 50.0))
            estimates[name] = (estimate, estimate * low, estimate * high)
    return estimates


def _draw_count(samples: int) -> int:
    """Return the number of draws: fewer for larger runs, which bounds the work."""
    return int(min(DRAWS_MAX, max(DRAWS_MIN, _DRAWN_SAMPLES_MAX // max(1, samples))))


def _stretch_s(stratum: Stratum, block_s: float) -> float:
    return min(block_s, stratum.length_s / STRETCHES_MIN)


def _stretches_per_block(blocks: Sequence[Block], block_s: float) -> float:
    """Return the mean number of stretches of time that do not overlap, per block."""
    counts = [
        sum(stratum.length_s / _stretch_s(stratum, block_s) for stratum in block)
        for block in blocks
    ]
    return float(np.mean(counts))


def _log_values(
    blocks: Sequence[Block],
    values: Mapping[str, Value],
    draws: int,
    block_s: float,
    rng: np.random.Generator,
    *,
    resample_blocks: bool,
) -> dict[str, Floats]:
    """Return the logarithm of each value in each bootstrap draw, (draws,) per value."""
    result = {name: np.empty(draws) for name in values}
    all_ms = pooled(blocks)
    chunk = max(1, _CELLS_MAX // max(1, sum(arm.size for arm in all_ms)))
    for first in range(0, draws, chunk):
        count = min(chunk, draws - first)
        times = _draw_counts(blocks, count, block_s, rng, resample_blocks=resample_blocks)
        for draw in range(count):
            latencies_ms = [
                np.repeat(arm, counts[draw]) for arm, counts in zip(all_ms, times, strict=True)
            ]
            full = all(arm.size for arm in latencies_ms)
            for name, value in values.items():
                figure = value(latencies_ms) if full else None
                result[name][first + draw] = math.nan if figure is None else math.log(figure)
    return result


def _draw_counts(
    blocks: Sequence[Block],
    draws: int,
    block_s: float,
    rng: np.random.Generator,
    *,
    resample_blocks: bool,
) -> list[NDArray[np.int64]]:
    """Count each request in each draw, (draws, requests) per arm, in the order of `pooled`.

    The same stretches of time are drawn in all arms of a stratum.
    """
    count = len(blocks)
    chosen = np.tile(np.arange(count), (draws, 1))
    if resample_blocks:
        chosen = rng.integers(count, size=(draws, count))
    parts: list[list[NDArray[np.int64]]] = [[] for _ in blocks[0][0].arms]
    for index, block in enumerate(blocks):
        draw, _ = np.nonzero(chosen == index)  # a draw may have the block several times
        for stratum in block:
            lengths_s = _lengths_s(stratum, block_s)
            starts_s = rng.uniform(0.0, stratum.length_s, (draw.size, lengths_s.size))
            for sample, counts in zip(stratum.arms, parts, strict=True):
                counts.append(
                    _count_draws(sample.at_s, stratum.length_s, starts_s, lengths_s, draw, draws)
                )
    return [np.hstack(counts) for counts in parts]


def _lengths_s(stratum: Stratum, block_s: float) -> Floats:
    """Return the lengths of the stretches of a stratum; the last one is the rest [s]."""
    length_s = _stretch_s(stratum, block_s)
    complete = math.floor(stratum.length_s / length_s + 1e-9)
    left_s = stratum.length_s - complete * length_s
    return np.array([length_s] * complete + ([left_s] if left_s > 1e-9 else []))


def _count_draws(
    at_s: Floats,
    length_s: float,
    starts_s: Floats,
    lengths_s: Floats,
    draw: NDArray[np.intp],
    draws: int,
) -> NDArray[np.int64]:
    """Count the stretches of each draw that hold each request, (draws, n).

    A stretch that passes the end continues at the begin.
    """
    width = at_s.size + 1
    rows = np.broadcast_to((draw * width)[:, None], starts_s.shape)
    ends_s = starts_s + lengths_s
    wraps = ends_s > length_s
    change = np.zeros(draws * width, dtype=np.int64)
    for sign, edges in (
        (1, rows + np.searchsorted(at_s, starts_s)),
        (-1, rows + np.searchsorted(at_s, ends_s)),
        (1, rows[wraps]),
        (-1, rows[wraps] + np.searchsorted(at_s, ends_s[wraps] - length_s)),
    ):
        change += sign * np.bincount(edges.ravel(), minlength=draws * width)
    counts: NDArray[np.int64] = np.cumsum(change.reshape(draws, width), axis=1)[:, :-1]
    return counts


def _half_width(
    within: Floats, within_and_between: Floats, blocks: int, stretches: float, level: float
) -> float:
    """Return half the interval's width in log f, by steps 3 and 4 of the module's method."""
    variance_within = float(np.nanvar(within, ddof=1))
    w = variance_within * stretches / (stretches - 1.0)
    w_freedom = blocks * (stretches - 1.0)
    b = 0.0
    if blocks > 1:
        b = (
            max(0.0, float(np.nanvar(within_and_between, ddof=1)) - variance_within)
            * blocks
            / (blocks - 1.0)
        )
    total = w + b
    if total <= 0.0:
        return 0.0
    freedom = total**2 / (w**2 / w_freedom + (b**2 / (blocks - 1.0) if b else 0.0))
    return float(stats.t.isf(level / 2.0, freedom)) * math.sqrt(total)
