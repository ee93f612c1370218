"""Deployment schemes: failed machines are detected, fenced and replaced or repaired.

Read `controller.py` first (the states of a lost machine), then `heartbeat.py` (detection),
`operations.py` (operations on machines) and `journal.py` (their events).
"""

from experiments.testbed.schemes.controller import Controller
from experiments.testbed.schemes.journal import Journal
from experiments.testbed.schemes.operations import MachineOperations

__all__ = ["Controller", "Journal", "MachineOperations"]
