"""Latency of tiers and pages. Read `station` for the law, `sources` for where figures come from."""

from optimizer.latency.page import PageLatency, zero_load_s
from optimizer.latency.station import Station, Stays, TierLatency, mean_stay_s, stays

__all__ = [
    "PageLatency",
    "Station",
    "Stays",
    "TierLatency",
    "mean_stay_s",
    "stays",
    "zero_load_s",
]
