"""Specifications: the keys of `fleet.tfvars` and `experiment.toml`; all others are refused.

Read `design.py` first: `load_design` reads both files of a design, checks each one
(`fleet.py`, `experiment.py`) and then both against each other (`checks.py`) and against the roles
of their tiers (`roles.py`). `contracts.py` has the abilities of the agents, `text.py` writes both
files.
"""

from experiments.design.design import Check, Design, designs_available, is_path, load_design

__all__ = ["Check", "Design", "designs_available", "is_path", "load_design"]
