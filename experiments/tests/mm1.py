"""An M/M/1 server: exponential gaps and work, first come, first served (Lindley's recursion)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mm1_stays(
    rate_per_s: float, service_s: float, length_s: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Arrivals in [0, length_s) and the time that each spends in the system [s]."""
    count = rng.poisson(rate_per_s * length_s)
    starts = np.sort(rng.uniform(0.0, length_s, count))
    work = rng.exponential(service_s, count)
    free_s = 0.0
    stays = np.empty(count)
    for place, (start_s, work_s) in enumerate(zip(starts, work, strict=True)):
        free_s = max(free_s, start_s) + work_s
        stays[place] = free_s - start_s
    return starts, stays
