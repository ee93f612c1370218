"""Specifications: what a user may write in `fleet.tfvars` and `experiment.toml`, and nothing else.

Read `design.py` first: `load_design` reads both files of a design, checks each by itself
(`fleet.py`, `experiment.py`) and then both against each other (`checks.py`) and the roles of their
tiers (`roles.py`). `contracts.py` says what the agents can do, `text.py` writes both files.
"""

from experiments.design.design import Check, Design, designs_available, is_path, load_design

__all__ = ["Check", "Design", "designs_available", "is_path", "load_design"]
