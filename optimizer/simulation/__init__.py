"""The simulator (`agents/simulator`, a program) as commands use it: `program` finds and runs it."""

from optimizer.simulation.program import percentile_s, replay, reports, simulate

__all__ = ["percentile_s", "replay", "reports", "simulate"]
