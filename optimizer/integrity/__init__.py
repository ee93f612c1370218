"""Time of a node as correct, corrupt or down under transient faults: PCRAFT's integrity models.

Read `model.py` first (the chain of Fig. 2 and the finite pool), then `doubling.py` (the numerical
method and its bound).
"""

from optimizer.integrity.measured import Counts, Measured, read_counts, read_measured
from optimizer.integrity.model import (
    NODE_TYPES,
    FaultOutcomes,
    Integrity,
    Recovery,
    Shares,
    integrity,
)

__all__ = [
    "NODE_TYPES",
    "Counts",
    "FaultOutcomes",
    "Integrity",
    "Measured",
    "Recovery",
    "Shares",
    "integrity",
    "read_counts",
    "read_measured",
]
