"""Latency of tiers and pages.

Read `station` for the law of a tier, `below` for a copy's wait, `page` for a whole page.
"""

from optimizer.latency.below import BINS, mean_of, waits
from optimizer.latency.page import PageLatency, below_of, mean_s, zero_load_s
from optimizer.latency.station import Station, Stays, TierLatency, mean_stay_s, stays

__all__ = [
    "BINS",
    "PageLatency",
    "Station",
    "Stays",
    "TierLatency",
    "below_of",
    "mean_of",
    "mean_s",
    "mean_stay_s",
    "stays",
    "waits",
    "zero_load_s",
]
