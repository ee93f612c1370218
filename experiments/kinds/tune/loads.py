"""Inputs of Alg. 1, from the arbiters' statistics: rates, processing and token hold times, and
the variability of each tier.

Everything is a difference of two polls of `/v1/stats` and `/v1/latency`, before and after a window
at r = (1, ..., 1) (rates) or at any r (variability).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.errors import MeasurementFailed
from core.statistics.percentiles import rank_of
from experiments.kinds.tune.section import Target
from optimizer.replication import TierLoad

Poll = Mapping[str, Any]  # {"stats": /v1/stats, "latency": /v1/latency}


@dataclass(frozen=True)
class TierWindow:
    """One tier's counters over one window, or over several that were added up."""

    seconds: float = 0.0
    requests: int = 0
    grants: int = 0
    granted_us: int = 0
    processed: int = 0
    processing_us: int = 0
    busy_us: int = 0
    wasted_us: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)  # latency [us] -> requests

    def __add__(self, other: TierWindow) -> TierWindow:
        return TierWindow(
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in self.__dataclass_fields__
                if name != "buckets"
            },
            buckets=dict(Counter(self.buckets) + Counter(other.buckets)),
        )

    def quantile_us(self, quantile: float) -> int:
        """Return the histogram's quantile; 0 without requests."""
        left = rank_of(quantile, sum(self.buckets.values()))
        for latency_us in sorted(self.buckets):
            left -= self.buckets[latency_us]
            if left <= 0:
                return latency_us
        return 0

    def mean_us(self) -> float:
        """Return the histogram's mean; 0 without requests."""
        count = sum(self.buckets.values())
        return sum(us * n for us, n in self.buckets.items()) / count if count else 0.0

    def variability(self, target: Target) -> float:
        """w_i: the percentile (p99 for the target p99, else p95) over the mean (sPARE 5.2)."""
        mean_us = self.mean_us()
        quantile = 0.99 if target == "p99" else 0.95
        return self.quantile_us(quantile) / mean_us if mean_us > 0 else 0.0


def tier_window(before: Poll, after: Poll, seconds: float) -> TierWindow:
    """Return the counts of one arbiter between two polls. Raises MeasurementFailed if it was
    restarted.
    """
    first, last = before["stats"], after["stats"]
    if last["uptime_s"] < first["uptime_s"]:
        raise MeasurementFailed(
            f"arbiter of {last['tier']}",
            expected="to run through a window",
            got="counters that began again: it was restarted",
            hint="See why with `sparecraft up` and the arbiter's log.",
        )

    def grown(key: str) -> int:
        return int(last[key]) - int(first[key])

    def over_servers(key: str) -> int:
        return sum(int(s[key]) for s in last["servers"]) - sum(
            int(s[key]) for s in first["servers"]
        )

    old, new = (
        Counter({bucket["us"]: bucket["count"] for bucket in poll["latency"]["buckets"]})
        for poll in (before, after)
    )
    return TierWindow(
        seconds=seconds,
        requests=int(last["requests"]["received"]) - int(first["requests"]["received"]),
        grants=grown("token_holds"),
        granted_us=grown("token_hold_us_total"),
        processed=over_servers("processing_count"),
        processing_us=over_servers("processing_us_sum"),
        busy_us=grown("busy_us"),
        wasted_us=grown("wasted_us"),
        buckets=dict(new - old),
    )


def tier_load(
    name: str, servers: int, cores: float, tokens_per_server: int | None, seen: TierWindow
) -> TierLoad:
    """Alg. 1's inputs for one tier, seen at r = (1, ..., 1).

    lambda: requests per second; T = 1 / mu: core time per request (5.1.1); lambda_conn: grants per
    second, which is what takes tokens; T^K: how long a grant was held (5.1.2).
    Raises: MeasurementFailed for a tier that processed nothing.
    """
    if not (seen.processed and seen.requests and seen.processing_us):
        raise MeasurementFailed(
            f"tier {name}",
            expected="requests that its servers processed",
            got="none",
            hint="Does the load reach it? `sparecraft run` on the design shows more.",
        )
    return TierLoad(
        servers=servers,
        cores=cores,
        request_per_s=seen.requests / seen.seconds,
        processing_s=seen.processing_us / seen.processed / 1e6,
        connection_per_s=seen.grants / seen.seconds,
        token_hold_s=seen.granted_us / seen.grants / 1e6 if seen.grants else 0.0,
        tokens_per_server=tokens_per_server,
        name=name,
    )


def total(windows: Sequence[TierWindow]) -> TierWindow:
    """Return all windows of one tier added up."""
    return sum(windows, TierWindow())
