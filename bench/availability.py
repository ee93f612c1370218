"""Our availability solver beside the plain way, scipy's dense matrix exponential."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from optimizer.availability import HORIZON_S, FailureRates, passive_failover
from optimizer.availability.models import passive_failover_by_pool

NEEDED, POOL = 10, 18
RATES = FailureRates(crash_per_year=1.0, failover_s=15.0)
TURNS = 5


def measure() -> dict[str, Any]:
    """Seconds for one availability, medians over turns, and how far the two are apart."""
    ours, dense = [], []
    values = (0.0, 0.0)
    for _ in range(TURNS):
        passive_failover_by_pool.cache_clear()
        ours_s, ours_value = _timed(lambda: passive_failover(NEEDED, POOL, RATES).availability)
        dense_s, dense_value = _timed(_dense)
        ours.append(ours_s)
        dense.append(dense_s)
        values = (ours_value, dense_value)
    return {
        "model": f"passive failover, on-premises, {NEEDED} nodes, pool {POOL}, a year",
        "turns": TURNS,
        "ours_s": statistics.median(ours),
        "ours_s_range": [min(ours), max(ours)],
        "dense_s": statistics.median(dense),
        "dense_s_range": [min(dense), max(dense)],
        "difference": abs(values[0] - values[1]),
        "ratio": statistics.median(dense) / statistics.median(ours),
    }


def _timed(call: Callable[[], float]) -> tuple[float, float]:
    began = time.perf_counter()
    value = call()
    return time.perf_counter() - began, value


def _dense() -> float:
    """PCRAFT Fig. 1(a): exp of the generator with an integral row, in years."""
    index = {
        (down, pool): number
        for number, (down, pool) in enumerate(
            (down, pool) for down in range(NEEDED + 1) for pool in range(POOL + 1)
        )
    }
    size = len(index)
    generator = np.zeros((size + 1, size + 1))
    failover_per_year = HORIZON_S / RATES.failover_s
    for (down, pool), number in index.items():
        if down < NEEDED:
            _add(generator, number, index[down + 1, pool], (NEEDED - down) * RATES.crash_per_year)
        if down and pool:
            rate = min(down, pool) * failover_per_year
            _add(generator, number, index[down - 1, pool - 1], rate)
        if down == 0:
            generator[number, size] = 1.0  # the last column integrates the time at full strength
    return float(scipy.linalg.expm(generator)[index[0, POOL], size])


def _add(generator: Any, source: int, target: int, rate: float) -> None:
    generator[source, target] += rate
    generator[source, source] -= rate
