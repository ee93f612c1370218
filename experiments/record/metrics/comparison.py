"""More than two arms: each against the baseline, over the blocks that the two share.

Every figure is that of `improvement.py`, arm by arm. The intervals hold for one arm each: where
twenty arms are compared, about one interval in twenty misses its factor by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from experiments.record.metrics.improvement import improvement, pairs_of


def comparison(
    requests: pl.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    block_s: float,
    rng: np.random.Generator,
) -> Mapping[str, Any]:
    """Improvement factors over `baseline` of every other arm; empty for fewer than three arms.

    Parameters: requests as for `pairs_of`; block_s float [s] > 0 and rng as in `improvement`.
    Returns: {arm: what `improvement` returns}, in the order of `arms`.
    """
    if len(arms) < 3:
        return {}
    return {
        arm: improvement(pairs_of(requests, baseline, arm), block_s=block_s, rng=rng)
        for arm in arms
        if arm != baseline
    }
