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
    """One tier's counters over one window, or the sum over several windows."""

    seconds: float = 0.0
    requests: int = 0
    grants: int = 0
    granted_us: int = 0
    processed: int = 0
    processing_us: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)  # latency [us] -> requests

    def __add__(self, second: TierWindow) -> TierWindow:
        return TierWindow(
            **{
                name: getattr(self, name) + getattr(second, name)
                for name in self.__dataclass_fields__
                if name != "buckets"
            },
            buckets=dict(Counter(self.buckets) + Counter(second.buckets)),
        )

    def quantile_us(self, quantile: float) -> int:
        """Return the histogram's quantile; 0 without requests."""
        remaining = rank_of(quantile, sum(self.buckets.values()))
        for latency_us in sorted(self.buckets):
            remaining -= self.buckets[latency_us]
            if remaining <= 0:
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
    """Return the counts of one arbiter between two polls.

    Raises: MeasurementFailed if the arbiter was restarted.
    """

    first, last = before["stats"], after["stats"]
    if last["uptime_s"] < first["uptime_s"]:
        raise MeasurementFailed(
            f"arbiter of {last['tier']}",
            expected="to run through a window",
            got="counters that began again: it was restarted",
            hint="See why with `sparecraft up` and the arbiter's log.",
        )

    def growth(key: str) -> int:
        return int(last[key]) - int(first[key])

    def server_growth(key: str) -> int:
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
        grants=growth("token_holds"),
        granted_us=growth("token_hold_us_total"),
        processed=server_growth("processing_count"),
        processing_us=server_growth("processing_us_sum"),
        buckets=dict(new - old),
    )


def tier_load(
    name: str, servers: int, cores: float, tokens_per_server: int | None, window: TierWindow
) -> TierLoad:
    """Return Alg. 1's inputs for one tier, from a window at r = (1, ..., 1).

    lambda: requests per second; T = 1 / mu: core time per request (5.1.1); lambda_conn: grants per
    second, because grants take tokens; T^K: the time for which a grant was held (5.1.2).
    Raises: MeasurementFailed for a tier that processed nothing.
    """
    if not (window.processed and window.requests and window.processing_us):
        raise MeasurementFailed(
            f"tier {name}",
            expected="requests that its servers processed",
            got="none",
            hint="Does the load reach it? `sparecraft run` on the design shows more.",
        )
    return TierLoad(
        servers=servers,
        cores=cores,
        request_per_s=window.requests / window.seconds,
        processing_s=window.processing_us / window.processed / 1e6,
        connection_per_s=window.grants / window.seconds,
        token_hold_s=window.granted_us / window.grants / 1e6 if window.grants else 0.0,
        tokens_per_server=tokens_per_server,
        name=name,
    )


def total(windows: Sequence[TierWindow]) -> TierWindow:
    return sum(windows, TierWindow())
