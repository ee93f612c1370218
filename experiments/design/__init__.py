"""Specifications: what a user may write in `fleet.tfvars` and `experiment.toml`, and nothing else.

Read `design.py` first: `load_design` reads both files of a design, checks each by itself
(`fleet.py`, `experiment.py`) and then both against each other (`checks.py`) and the roles of their
tiers (`roles.py`). `contracts.py` says what the agents can do, `text.py` writes both files.
"""

from experiments.design.design import DESIGNS, Design, designs_available, load_design
from experiments.design.experiment import (
    Arm,
    Experiment,
    Fault,
    Interference,
    Load,
    Order,
    Phases,
    Selector,
    Slo,
    TierSettings,
)
from experiments.design.fleet import Arbiter, Fleet, Tier
from experiments.design.prediction import PLANNED_ARM, Prediction, read_prediction

__all__ = [
    "DESIGNS",
    "PLANNED_ARM",
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
    "TierSettings",
    "designs_available",
    "load_design",
    "read_prediction",
]
