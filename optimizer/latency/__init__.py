"""Latency of tiers and pages.

Read `station` for the law of a tier, `page` for that of a whole page, `sources` for where a tier's
figures come from: measured (`table`), simulated (`simulated`) or approximated.
"""

from optimizer.latency.page import PageLatency, Parts, moments_of, visits_of, zero_load_s
from optimizer.latency.simulated import Simulated, SimulatorAnswer, SimulatorQuestion
from optimizer.latency.sources import Approximation, Layered, NotCovered, TierSource, TierTail
from optimizer.latency.station import Station, Stays, TierLatency, mean_stay_s, stays
from optimizer.latency.table import MeasuredTable

__all__ = [
    "Approximation",
    "Layered",
    "MeasuredTable",
    "NotCovered",
    "PageLatency",
    "Parts",
    "Simulated",
    "SimulatorAnswer",
    "SimulatorQuestion",
    "Station",
    "Stays",
    "TierLatency",
    "TierSource",
    "TierTail",
    "mean_stay_s",
    "moments_of",
    "stays",
    "visits_of",
    "zero_load_s",
]
