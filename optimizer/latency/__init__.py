"""Latency of tiers and pages.

Read `station` for the law of a tier, `page` for that of a whole page.
"""

from optimizer.latency.page import PageLatency, Parts, moments_of, visits_of, zero_load_s
from optimizer.latency.station import Station, Stays, TierLatency, mean_stay_s, stays

__all__ = [
    "PageLatency",
    "Parts",
    "Station",
    "Stays",
    "TierLatency",
    "mean_stay_s",
    "moments_of",
    "stays",
    "visits_of",
    "zero_load_s",
]
