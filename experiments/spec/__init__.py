"""Specifications: what a user may write in `fleet.tfvars` and `experiment.toml`, and nothing else.

Read `design.py` first: `load_design` reads both files of a design, checks each by itself
(`fleet.py`, `experiment.py`) and then both against each other. `text.py` writes both files.
"""

from experiments.spec.design import DESIGNS, Design, designs_available, load_design
from experiments.spec.experiment import (
    FAULT_KINDS,
    INTERFERENCE_KINDS,
    Arm,
    Experiment,
    Fault,
    Interference,
    Load,
    Order,
    Phases,
    Selector,
    Slo,
)
from experiments.spec.fleet import ROLES, Arbiter, Fleet, Tier
from experiments.spec.prediction import PLANNED_ARM, Prediction, read_prediction

__all__ = [
    "DESIGNS",
    "FAULT_KINDS",
    "INTERFERENCE_KINDS",
    "PLANNED_ARM",
    "ROLES",
    "Arbiter",
    "Arm",
    "Design",
    "Experiment",
    "Fault",
    "Fleet",
    "Interference",
    "Load",
    "Order",
    "Phases",
    "Prediction",
    "Selector",
    "Slo",
    "Tier",
    "designs_available",
    "load_design",
    "read_prediction",
]
