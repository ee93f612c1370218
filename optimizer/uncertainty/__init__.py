"""Certainty of an availability and a size, when the rates come from a few observations.

Read `posterior.py` first (a number after few observations), then `rates.py` (the [rates] table),
then `interval.py` and `sizing.py` (the results for availability and sizes).
"""

from optimizer.uncertainty.interval import AvailabilityInterval, availability_interval
from optimizer.uncertainty.posterior import Posterior, rate_posterior, time_posterior
from optimizer.uncertainty.rates import UncertainRates, rates_from
from optimizer.uncertainty.sizing import ConfidentSizing, least_extra_nodes_at, least_pool_at

__all__ = [
    "AvailabilityInterval",
    "ConfidentSizing",
    "Posterior",
    "UncertainRates",
    "availability_interval",
    "least_extra_nodes_at",
    "least_pool_at",
    "rate_posterior",
    "rates_from",
    "time_posterior",
]
