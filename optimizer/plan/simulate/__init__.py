"""Simulation of a plan's fleets: `decide` finds the cheapest that keeps the whole SLO."""

from optimizer.plan.simulate.search import (
    Decided,
    Refused,
    decide,
    not_simulated,
    simulated_outlook,
)

__all__ = ["Decided", "Refused", "decide", "not_simulated", "simulated_outlook"]
