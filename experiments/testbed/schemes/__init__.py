"""Deployment schemes that behave: failed machines are found, fenced and replaced or repaired.

Read `controller.py` first (the life of a lost machine), then `heartbeat.py` (when one is lost),
`operations.py` (what is done to machines) and `journal.py` (what is written down of it).
"""

from experiments.testbed.schemes.controller import Controller
from experiments.testbed.schemes.journal import Journal
from experiments.testbed.schemes.operations import MachineOperations

__all__ = ["Controller", "Journal", "MachineOperations"]
