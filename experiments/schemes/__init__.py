"""Deployment schemes that behave: failed machines are found, fenced and replaced or repaired.

Read `controller.py` first (the life of a lost machine), then `heartbeat.py` (when one is lost),
`hands.py` (what is done to machines) and `journal.py` (what is written down of it).
"""

from experiments.schemes.controller import Controller
from experiments.schemes.hands import Hands
from experiments.schemes.heartbeat import Heartbeats, Lost
from experiments.schemes.journal import Journal, Log

__all__ = ["Controller", "Hands", "Heartbeats", "Journal", "Log", "Lost"]
