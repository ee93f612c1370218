"""Latency of tiers and pages.

Read `station` for the law of a tier, `page` for that of a whole page, `sources` for where a tier's
figures come from: measured (`table`), simulated (`simulated`) or approximated, and `moments` for a
page made of such tiers.
"""

from optimizer.latency.moments import MomentError, PageMoments, error_against, page_moments
from optimizer.latency.page import PageLatency, zero_load_s
from optimizer.latency.simulated import Simulated, SimulatorAnswer, SimulatorQuestion
from optimizer.latency.sources import Approximation, Layered, NotCovered, TierSource, TierTail
from optimizer.latency.station import Station, Stays, TierLatency, mean_stay_s, stays
from optimizer.latency.table import MeasuredTable

__all__ = [
    "Approximation",
    "Layered",
    "MeasuredTable",
    "MomentError",
    "NotCovered",
    "PageLatency",
    "PageMoments",
    "Simulated",
    "SimulatorAnswer",
    "SimulatorQuestion",
    "Station",
    "Stays",
    "TierLatency",
    "TierSource",
    "TierTail",
    "error_against",
    "mean_stay_s",
    "page_moments",
    "stays",
    "zero_load_s",
]
