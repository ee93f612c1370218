r"""A share of requests with its interval, where requests come in blocks and slow ones in bursts.

One neighbour slows dozens of requests at once, so N requests are less evidence of the share p of
requests beyond a limit than N independent ones. The design effect D states the loss: the variance
of the observed share over p (1 - p) / N. It is estimated at two levels, as in the intervals of
percentiles:

    within  W = sum over K blocks of  m / (m - 1) sum over its m stretches of ((h - p_k n) / N)^2
    whole   V = K / (K - 1) sum over blocks of ((h_k - p n_k) / N)^2

A stretch has n requests, h of them beyond the limit; p_k is the block's own share. The variance is
max(W, V); its degrees of freedom are Satterthwaite's, of W and of V - W. A few requests beyond a
limit show no bursts even if there are bursts. So D is at least that of the slowest requests of the
same sample, as many as the limit allows (ten at least), and at least 1.

The interval is that of Korn & Graubard (1998, Survey Methodology 24): Clopper & Pearson's exact
binomial interval of n* = N / D (z / t)^2 requests, with t of Student's distribution with those
degrees of freedom; its upper end is above 0 if no request is beyond. Simulations in
tests/unit/record/test_looks.py measure its coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from core.arrays import Floats, Ints, Mask

_HITS_MIN = 10.0


@dataclass(frozen=True)
class Effect:
    """Variance of the observed share over that of as many independent requests [-]."""

    design: float  # at least 1
    freedom: float  # degrees of freedom of the estimate


def effect(beyond: Mask, block: Ints, stretch: Ints) -> Effect:
    """Return the design effect of a share.

    Parameters: beyond (n,), true for a request beyond the limit; block (n,) and stretch (n,), the
    numbers of the block and of the stretch of each request, from 0. A stretch is of one block.
    Source: Korn & Graubard 1998; degrees of freedom: Satterthwaite 1946.
    """
    size, hits = beyond.size, beyond.astype(np.float64)
    block_sizes = np.bincount(block)
    stretch_sizes = np.bincount(stretch)
    occupied = stretch_sizes > 0
    owner = np.zeros(stretch_sizes.size, dtype=np.int64)
    owner[stretch] = block
    share = float(hits.mean())
    block_hits = np.bincount(block, hits)
    block_share = np.divide(
        block_hits, block_sizes, out=np.zeros_like(block_hits), where=block_sizes > 0
    )
    inner = (
        (np.bincount(stretch, hits) - block_share[owner] * stretch_sizes)[occupied] / size
    ) ** 2
    counts = np.bincount(owner[occupied], minlength=block_sizes.size)
    within = 0.0
    for number, count in enumerate(counts):
        if count > 1:
            within += count / (count - 1.0) * float(inner[owner[occupied] == number].sum())
    blocks = int((block_sizes > 0).sum())
    freedom_within = max(1.0, float(np.maximum(counts - 1, 0).sum()))
    between = 0.0
    if blocks > 1:
        outer = ((block_hits - share * block_sizes) / size) ** 2
        between = max(0.0, blocks / (blocks - 1.0) * float(outer.sum()) - within)
    independent = share * (1.0 - share) / size
    total = within + between
    if independent <= 0.0 or total <= 0.0:
        return Effect(1.0, freedom_within)
    weight = within**2 / freedom_within + (between**2 / (blocks - 1.0) if blocks > 1 else 0.0)
    return Effect(max(1.0, total / independent), total**2 / weight)


def slowest(latency_ms: Floats, share: float) -> Mask:
    """Mark the slowest requests of a sample: `share` of them, at least ten, at most half, and ties.

    Parameters: latency_ms (n,) [ms]; share in [0, 1]. Returns: (n,) true for the slowest.
    """
    size = latency_ms.size
    rank = size - max(1, int(min(size / 2.0, max(_HITS_MIN, share * size))))
    mask: Mask = latency_ms >= np.partition(latency_ms, rank)[rank]
    return mask


def share_interval(
    hits: int, size: int, effects: Sequence[Effect], confidence: float
) -> tuple[float, float]:
    """Return the interval of a share; each end misses it with at most (1 - confidence) / 2.

    Parameters: hits of size >= 1 requests; effects, of which the least favourable counts;
    confidence in (0, 1). Returns: (low, high) in [0, 1]. Source: Korn & Graubard 1998.
    """
    tail = (1.0 - confidence) / 2.0
    design = max(estimate.design for estimate in effects)
    freedom = min(estimate.freedom for estimate in effects)
    narrowed = float(stats.norm.isf(tail) / stats.t.isf(tail, freedom)) ** 2
    effective_size = size / design * narrowed
    effective_hits = hits / size * effective_size
    misses = effective_size - effective_hits
    low = 0.0 if hits == 0 else float(stats.beta.ppf(tail, effective_hits, misses + 1.0))
    high = 1.0 if hits == size else float(stats.beta.isf(tail, effective_hits + 1.0, misses))
    return low, high
