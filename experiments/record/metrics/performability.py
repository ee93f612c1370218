r"""Users' view: rates, goodput, punctuality, demerits, per arm or per phase.

Broadwell 2004 prints punctuality as (fault-related mean latency) / (ideal latency), yet calls 1
ideal, higher better and draws values below 1: the fraction is upside down in print. Here it is
ideal / observed, as in the report's Figure 16.

The report leaves open the factor that makes seconds of latency comparable to counted failures. We
take the number of requests: each second that a request waits above the ideal is one demerit,
    demerits = sum_o w_o n_o + w_s n max(0, waited - ideal),
so both terms grow with the number of requests, and `demerits_per_request` compares arms.

The report's clients record the duration of a request, whatever its outcome (section 3.3.2), and
count its failure separately: `waited` is the mean of the durations, so a failure is weighed once.
Mean, percentiles, thresholds and punctuality use the latency that requests count with
(`core.statistics.percentiles`): by the report's own latencies, a service that refuses at once is
punctual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from core.runfiles.events import Window
from core.statistics.percentiles import OK, percentile
from experiments.record.metrics.frames import ANSWERED
from experiments.record.metrics.latency import LatencyStatistics, latency_statistics, threshold_key
from experiments.record.metrics.weights import performability_weights
from experiments.record.records import OUTCOMES

_UNDISTURBED_MIN = 30


@dataclass(frozen=True)
class Ideal:
    """The best-case mean latency that punctuality and demerits are measured against."""

    latency_ms: float | None
    source: str


class UserMetrics(LatencyStatistics):
    """Users' figures; rates are None if the time is 0, shares if there is no request."""

    requests: int
    ok: int
    errors: int
    error_share: float | None
    outcomes: dict[str, int]
    duration_s: float
    offered_per_s: float | None
    throughput_per_s: float | None
    goodput_per_s: float | None
    goodput: float | None
    waited_ms_mean: float | None
    ok_within_s: dict[str, float | None]
    punctuality: float | None
    demerits: float | None
    demerits_per_request: float | None
    lag_ms_p99: float | None


def ideal_latency(requests: pl.DataFrame, arm: str, disturbances: Sequence[Window]) -> Ideal:
    """Return the mean latency of the run's undisturbed time.

    Undisturbed are the requests of `arm` that were answered ok and met no fault or interference
    between arrival and answer. With fewer than 30 of them the faster half of the ok requests
    counts instead, and `source` says so.
    """
    ok = requests.filter((pl.col("arm") == arm) & (pl.col("outcome") == OK))
    quiet = ok
    for window in disturbances:
        is_apart = (pl.col("done_s") < window.start_s) | (pl.col("intended_s") > window.end_s)
        quiet = quiet.filter(is_apart)
    if quiet.height >= _UNDISTURBED_MIN:
        return Ideal(_mean(quiet), f"{quiet.height:,} undisturbed requests of {arm}")
    if ok.height == 0:
        return Ideal(None, f"no request of {arm} was answered")
    faster = ok.sort("latency_ms").head((ok.height + 1) // 2)
    return Ideal(
        _mean(faster),
        f"the faster half of {arm}'s requests, as only {quiet.height} met no disturbance",
    )


def user_metrics(requests: pl.DataFrame, duration_s: float, ideal: Ideal) -> UserMetrics:
    """Return every figure of one arm, or of one arm in one phase.

    Parameters: requests (n rows) from `prepared`; duration_s float [s] of these arrivals; ideal of
    the run.
    """
    counts = outcome_counts(requests)
    total = requests.height
    statistics = latency_statistics(requests["latency_ms"].to_numpy())
    mean_ms = statistics["mean_ms"]
    waited_ms = float(requests["waited_ms"].to_numpy().mean()) if total else None
    points = demerits(counts, waited_ms, ideal.latency_ms)
    lags_ms = np.sort(requests["lag_ms"].drop_nulls().to_numpy())
    return {
        "requests": total,
        "ok": counts[OK],
        "errors": total - counts[OK],
        "error_share": _ratio(total - counts[OK], total),
        "outcomes": counts,
        "duration_s": duration_s,
        "offered_per_s": _ratio(total, duration_s),
        "throughput_per_s": _ratio(sum(counts[name] for name in ANSWERED), duration_s),
        "goodput_per_s": _ratio(counts[OK], duration_s),
        "goodput": _ratio(counts[OK], total),
        **statistics,
        "waited_ms_mean": waited_ms,
        "ok_within_s": _ok_within(requests),
        "punctuality": (
            ideal.latency_ms / mean_ms if ideal.latency_ms is not None and mean_ms else None
        ),
        "demerits": points,
        "demerits_per_request": None if points is None else _ratio(points, total),
        "lag_ms_p99": percentile(lags_ms, 0.99),
    }


def outcome_counts(requests: pl.DataFrame) -> dict[str, int]:
    """Return the requests of each outcome, zeros included, in a fixed order."""
    counts = dict(requests.group_by("outcome").len().iter_rows())
    return {name: int(counts.get(name, 0)) for name in OUTCOMES}


def demerits(
    counts: Mapping[str, int], waited_ms_mean: float | None, ideal_ms: float | None
) -> float | None:
    """Broadwell 2004, section 5.6, with the scaling factor of this module's head.

    None if there is nothing to judge: no request, or no ideal latency.
    """
    if waited_ms_mean is None or ideal_ms is None:
        return None
    weights = performability_weights()
    failures = sum(weights.demerits.get(name, 0.0) * count for name, count in counts.items())
    seconds = sum(counts.values()) * max(0.0, waited_ms_mean - ideal_ms) / 1000.0
    return failures + weights.second_above_ideal * seconds


def _ok_within(requests: pl.DataFrame) -> dict[str, float | None]:
    ok_ms = requests.filter(pl.col("outcome") == OK)["latency_ms"]
    return {
        threshold_key(limit): _ratio(int((ok_ms <= limit * 1000.0).sum()), requests.height)
        for limit in performability_weights().thresholds_s
    }


def _mean(frame: pl.DataFrame) -> float:
    return float(frame["latency_ms"].to_numpy().mean())


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None
