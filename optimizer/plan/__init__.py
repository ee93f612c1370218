"""The plan: the cheapest fleet that meets the SLOs, and why.

Read `planner.py` first (the ways to a plan), then `case.py` (what is asked), `options.py` and
`table.py` (what a tier may be), `model.py` (the optimization; `screen`, `first` before it, `labels`
for long chains), `evidence.py` (latency: measured or modelled), `report.py` and `explain.py`.
`example.toml` is the schema of plan.toml.
"""

from optimizer.plan.options import Limits
from optimizer.plan.outcome import Plan, TierPlan
from optimizer.plan.planner import plan_from_file, plan_from_results, plan_service

__all__ = ["Limits", "Plan", "TierPlan", "plan_from_file", "plan_from_results", "plan_service"]
