"""Fits models to measured results and plans the cheapest fleet that meets the SLOs."""

from optimizer.errors import InputError, PlannerError, UnstableError
from optimizer.plan import Limits, Plan, TierPlan, plan_from_results
from optimizer.prices import PriceBook

__all__ = [
    "InputError",
    "Limits",
    "Plan",
    "PlannerError",
    "PriceBook",
    "TierPlan",
    "UnstableError",
    "plan_from_results",
]
