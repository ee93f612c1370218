"""The simulator (`agents/simulator`, a program) as the planner and its commands use it.

`program`   finds and runs it: scenarios in, reports out
`station`   a plan's tier as a scenario, so that `optimizer.latency.Simulated` can ask for it
"""

from optimizer.simulation.program import percentile_s, replay, reports, simulate
from optimizer.simulation.station import answer

__all__ = ["answer", "percentile_s", "replay", "reports", "simulate"]
