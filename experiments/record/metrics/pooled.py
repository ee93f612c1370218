r"""One factor over several runs: a random-effects model.

Runs of one design differ by more than the events within a run: by the host, its neighbours, the
hour. So run i has its own true log factor theta_i, and reports y_i with standard error s_i:

    y_i = theta_i + e_i,   theta_i ~ N(mu, tau^2),   e_i ~ N(0, s_i^2).

tau^2 by Paule and Mandel (1982): the one for which sum_i w_i (y_i - mu)^2 = k - 1 with
w_i = 1 / (s_i^2 + tau^2), and 0 if no such tau^2 >= 0 is there. The interval of mu by Hartung and
Knapp (2001) and Sidik and Jonkman (2002):

    mu +- t_{k-1} sqrt(q / sum_i w_i),   q = max(1, sum_i w_i (y_i - mu)^2 / (k - 1)),

q never below 1, so that runs that agree by chance do not make it narrower than the plain interval
(Jackson et al. 2017). The interval of a further run's measurement, which has its own error:

    mu +- t_{k-1} sqrt(tau^2 + its variance + mean of s_i^2).

Higgins et al. (2009) leave the last term out: their interval is for the true factor of a further
run, and held 44 to 93 of 100 measured factors from four runs on. With their k - 2 degrees of
freedom, the interval of three runs is three times as wide and holds all 100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from experiments.record.metrics.bootstrap import CONFIDENCE


@dataclass(frozen=True)
class Pooled:
    """The logarithm of a factor over runs: its mean with interval, and the spread of runs."""

    runs: int
    log: float
    low: float
    high: float
    tau: float  # standard deviation between runs
    next_low: float | None  # what 95 of 100 further runs will measure; from three runs on
    next_high: float | None


def pooled_log(logs: Sequence[float], errors: Sequence[float]) -> Pooled:
    """Return the random-effects mean of log factors.

    Parameters: logs y (k,), k >= 1; errors s (k,) > 0, their standard errors within the run.
    Returns: all in logarithms. With one run the interval is that run's own (normal).
    Raises: ValueError if there is no run, or an error is not above 0.
    """
    y, s = np.asarray(logs, dtype=float), np.asarray(errors, dtype=float)
    if y.size == 0 or y.size != s.size or not (s > 0).all():
        raise ValueError(f"expected as many errors above 0 as logs, at least one (got {y}, {s})")
    count = int(y.size)
    if count == 1:
        half = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) * float(s[0])
        value = float(y[0])
        return Pooled(1, value, value - half, value + half, 0.0, None, None)
    tau_squared = _paule_mandel(y, s)
    weights = 1.0 / (s**2 + tau_squared)
    mean = float(weights @ y / weights.sum())
    q = max(1.0, float(weights @ (y - mean) ** 2) / (count - 1))
    variance = q / float(weights.sum())
    half = _t(count - 1) * math.sqrt(variance)
    error_squared = float((s**2).mean())
    next_half = (
        _t(count - 1) * math.sqrt(tau_squared + variance + error_squared) if count > 2 else None
    )
    return Pooled(
        runs=count,
        log=mean,
        low=mean - half,
        high=mean + half,
        tau=math.sqrt(tau_squared),
        next_low=None if next_half is None else mean - next_half,
        next_high=None if next_half is None else mean + next_half,
    )


def standard_error(low: float, high: float) -> float:
    """Return the standard error of a log whose 95 % interval is low to high."""
    return (high - low) / 2 / float(stats.norm.ppf(0.5 + CONFIDENCE / 2))


def _excess(tau_squared: float, y: np.ndarray, s: np.ndarray) -> float:
    """sum_i w_i (y_i - mu)^2 - (k - 1); falls with tau^2."""
    weights = 1.0 / (s**2 + tau_squared)
    mean = weights @ y / weights.sum()
    return float(weights @ (y - mean) ** 2) - (y.size - 1)


def _paule_mandel(y: np.ndarray, s: np.ndarray) -> float:
    if _excess(0.0, y, s) <= 0:
        return 0.0
    high = float(np.var(y, ddof=1)) + 1e-12
    while _excess(high, y, s) > 0:
        high *= 2
    return float(optimize.brentq(_excess, 0.0, high, args=(y, s), xtol=1e-14))


def _t(freedom: int) -> float:
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))
