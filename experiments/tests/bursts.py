"""Latencies that rise in bursts which several arms share, with a truth that is known."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.record.metrics.bootstrap import Sample, Stratum

LENGTH_S = 60.0
RATE_PER_S = 10.0
BOTH = (3.0, 1.5)  # how much more a burst slows the first arm, and the second


def bursty(
    rng: np.random.Generator, drift_sd: float, slower: tuple[float, ...] = BOTH
) -> list[Stratum]:
    """One pair, or one block: shared arrivals and shared bursts; the first arm drifts."""
    at_s = np.sort(rng.uniform(0.0, LENGTH_S, rng.poisson(LENGTH_S * RATE_PER_S)))
    slow = np.zeros(at_s.size)
    for _ in range(3):
        start_s = rng.exponential(40.0)
        while start_s < LENGTH_S:
            end_s = start_s + rng.exponential(10.0)
            slow += (at_s >= start_s) & (at_s < end_s)
            start_s = end_s + rng.exponential(40.0)
    latencies = []
    for arm, factor in enumerate(slower):
        burst = 1.0 + factor * np.minimum(slow, 2.0) * rng.uniform(0.0, 1.0, at_s.size)
        drift = 1.0 if arm else np.exp(rng.normal(0.0, drift_sd)) * 1.2
        latencies.append(40.0 * np.exp(rng.normal(0.0, 0.4, at_s.size)) * burst * drift)
    at_s = at_s - at_s[0]
    return [Stratum(LENGTH_S, tuple(Sample(at_s, latency_ms) for latency_ms in latencies))]


@cache
def in_the_long_run(
    count: int, drift_sd: float, slower: tuple[float, ...] = BOTH
) -> list[NDArray[np.float64]]:
    """Return the latencies of each arm over `count` such pairs."""
    rng = np.random.default_rng(9)
    blocks = [bursty(rng, drift_sd, slower)[0].arms for _ in range(count)]
    return [np.concatenate([arms[arm].latency_ms for arms in blocks]) for arm in range(len(slower))]
