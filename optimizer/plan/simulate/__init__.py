"""Simulation of a plan's fleets: `decide` finds the cheapest that keeps the whole SLO."""

from optimizer.plan.simulate.search import Decided, decide, not_simulated

__all__ = ["Decided", "decide", "not_simulated"]
