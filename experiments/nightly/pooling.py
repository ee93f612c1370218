"""An arm's gain over several runs of the history."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.nightly.history import Run
from experiments.record.metrics.pooled import Pooled, pooled_log, standard_error


def night_gain(runs: Sequence[Run], statistic: str) -> Pooled | None:
    """Return the pooled gain of runs of one arm; None if no valid run has one with an interval.

    A run's interval is Student's with few degrees of freedom, and is taken for a normal one: that
    makes its error too large, never too small.
    """
    logs, errors = [], []
    for run in runs:
        gain = run.gains.get(statistic)
        if run.valid and gain and gain.low is not None and gain.high is not None:
            error = standard_error(gain.low, gain.high)
            if error > 0:
                logs.append(gain.log)
                errors.append(error)
    return pooled_log(logs, errors) if logs else None
