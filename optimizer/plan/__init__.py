"""The plan: the cheapest fleet that meets the SLOs, and why.

Read `planner.py` first (the way from a results folder to a plan), then `options.py` (what a tier
may be), `model.py` (the optimization), `evidence.py` (latency: measured or modelled), `explain.py`.
"""

from optimizer.plan.options import Limits
from optimizer.plan.outcome import Plan, TierPlan
from optimizer.plan.planner import plan_from_results, plan_service

__all__ = ["Limits", "Plan", "TierPlan", "plan_from_results", "plan_service"]
