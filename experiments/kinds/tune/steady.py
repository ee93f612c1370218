"""The begin of a window's steady state: MSER-5 on the logarithm of latency.

After a change of r the first requests meet queues, connections and observations of the old one. The
Marginal Standard Error Rule removes the beginning such that the standard error of the mean of the
rest is least (White 1997), here of batches of 5 requests, at most half of them. A cut
beyond a third means that the series was still moving: no steady state was reached (an overloaded
tier's queue, for instance, grows until the end).

The minimum may lie anywhere by chance, and a late one would cost samples. So the rule takes the
first cut whose squared standard error is within a fifth of the least.

Latencies have heavy tails, and neighbours come in bursts, which are no transient. So the rule uses
logarithms, and the requests of all windows of one r in the order of their time since the window's
start: a transient is at the same time in each window, a burst is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.record.metrics.latency import Floats

_BATCH = 5
_TOLERANCE = 1.2
_BATCHES_MIN = 8  # with fewer batches the whole series is kept


@dataclass(frozen=True)
class Steady:
    """Seconds since the windows' start from which requests count, and whether steadiness was
    reached at all."""

    from_s: float
    reached: bool


def steady_state(at_s: Sequence[Floats], latency_ms: Sequence[Floats]) -> Steady:
    """MSER-5 over several windows of one r.

    Parameters: per window, at_s (n,) float [s] since its start and latency_ms (n,) float [ms].
    """
    times_s = np.concatenate(at_s)
    order = np.argsort(times_s, kind="stable")
    times_s, values = times_s[order], np.log(np.maximum(np.concatenate(latency_ms)[order], 1e-3))
    count = values.size // _BATCH
    if count < _BATCHES_MIN:
        return Steady(0.0, reached=True)
    batches = values[: count * _BATCH].reshape(count, _BATCH).mean(axis=1)
    errors = _standard_errors(batches, count // 2 + 1)
    cut = int(np.argmax(errors <= _TOLERANCE * errors.min()))
    return Steady(float(times_s[cut * _BATCH]) if cut else 0.0, reached=cut <= count / 3)


def _standard_errors(batches: Floats, cuts: int) -> Floats:
    """Return the squared standard error of the mean of batches[d:], for d = 0..cuts-1."""
    rests = np.array([batches[cut:] for cut in range(cuts)], dtype=object)
    return np.array([((rest - rest.mean()) ** 2).sum() / rest.size**2 for rest in rests])
