"""The plan: the cheapest fleet that meets the SLOs, and why.

`planner.py` goes from a request (`inputs/`) to the cheapest fleet (`solve/`) and its explanation
(`explain/`); `outcome.py` has the result. Imports follow that order: `solve` imports neither of the
others. `example.toml` is the schema of plan.toml.
"""

from optimizer.plan.outcome import Plan, TierPlan
from optimizer.plan.planner import plan_from_file, plan_from_results
from optimizer.plan.solve.options import Limits

__all__ = ["Limits", "Plan", "TierPlan", "plan_from_file", "plan_from_results"]
