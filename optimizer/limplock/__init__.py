"""Limplock of a replicated block store under limping nodes: HDFS's reads, writes and regeneration.

Read `cluster.py` first (Table 2 of the limplock paper), then `protocol.py` (the same simulated),
`year.py` and `repair.py` (rates of limping: hours in limplock per year, mean time to data loss);
`measured.py` reads how much slower a run found an operation to be.
"""

from optimizer.limplock.cluster import (
    Cluster,
    Limplock,
    any_block_together,
    limplock,
    nodes_in_limplock,
)
from optimizer.limplock.measured import COPYING, LimpRun, MeasuredSlowdown, measured_slowdown
from optimizer.limplock.protocol import Estimate, Simulated, simulate
from optimizer.limplock.year import PAPER_SLOWDOWN, LimpRates, Range, Year, year, year_range

__all__ = [
    "COPYING",
    "PAPER_SLOWDOWN",
    "Cluster",
    "Estimate",
    "LimpRates",
    "LimpRun",
    "Limplock",
    "MeasuredSlowdown",
    "Range",
    "Simulated",
    "Year",
    "any_block_together",
    "limplock",
    "measured_slowdown",
    "nodes_in_limplock",
    "simulate",
    "year",
    "year_range",
]
