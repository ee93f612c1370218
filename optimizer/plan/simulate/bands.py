"""Fleets in bands of cost: a band's most expensive fleet costs at most STEP times its cheapest.

A band may have hundreds of fleets, and most of them may be hopeless: no number of their machines is
fast enough. So each is first simulated for a short time (`score`), and only the best are tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from core.arrays import Floats
from core.tolerances import CENT
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path

STEP = 1.06
BAND_MOST = 64  # fleets of a band that are looked at, spread evenly over it
BEST = 8  # fleets of a band that are tested
SEEN_MOST = 3_000  # fleets that are looked at
HOPELESS = 3.0  # times the allowed pages beyond a limit: fleets above that are not tested
SHORT_RUNS, SHORT_PAGES = 3, 150  # of a fleet's first look


def bands_upwards(paths: Iterator[Path], usd: float, below: list[Path]) -> Iterator[list[Path]]:
    """Yield the bands from a cost on, of fleets in order of cost; cheaper ones go into `below`."""
    band: list[Path] = []
    for path in paths:
        if cost(path) < usd - CENT:
            below.append(path)
            continue
        if band and cost(path) > STEP * cost(band[0]):
            yield band
            band = []
        band.append(path)
    if band:
        yield band


def bands_downwards(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield bands of fleets, the most expensive first."""
    ordered = sorted(paths, key=cost, reverse=True)
    while ordered:
        least = cost(ordered[0]) / STEP
        yield [path for path in ordered if cost(path) >= least]
        ordered = [path for path in ordered if cost(path) < least]


def sample_band(band: Sequence[Path]) -> list[Path]:
    """Return at most BAND_MOST fleets of a band, spread evenly over it."""
    count = min(len(band), BAND_MOST)
    return [band[i * len(band) // count] for i in range(count)]


def score(pages_ms: Floats, limits_ms: Mapping[int, float]) -> float:
    """Return the largest ratio of a share of pages beyond a limit to the allowed share.

    Parameters: pages_ms of all short runs; limits_ms by percentile.
    """
    return max(
        (float(np.mean(pages_ms > limit)) / (1.0 - q / 100.0) for q, limit in limits_ms.items()),
        default=0.0,
    )
