"""Estimates from a run of a service: rates, capacities, hold times, interference, latency per arm.

Read `service.py` first (the estimates), then `results.py` (the files and their checks), then
`estimate.py` (the method).
"""

from optimizer.fit.estimate import fit
from optimizer.fit.results import Results, read_results
from optimizer.fit.service import ArmMeasure, Estimate, ServiceFit, TierFit
from optimizer.fit.spec import TierSpec

__all__ = [
    "ArmMeasure",
    "Estimate",
    "Results",
    "ServiceFit",
    "TierFit",
    "TierSpec",
    "fit",
    "read_results",
]
