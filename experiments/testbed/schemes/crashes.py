"""The crash process: machines in service lose their power at times drawn in advance.

Each machine has its own Poisson stream. A crash of a machine that is down or waits in the pool is
skipped: a cold node does not fail, and with exponential gaps skipping is equivalent to drawing a
new time when the machine serves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from core.errors import SparecraftError
from experiments.testbed.schemes.journal import Journal
from experiments.testbed.schemes.operations import MachineOperations


def crash(
    schedule: Sequence[tuple[float, str]],
    operations: MachineOperations,
    journal: Journal,
    origin: float,
    ended: threading.Event,
) -> None:
    """Carry out a schedule of (seconds from `origin`, machine) until `ended`."""
    for at_s, machine in schedule:
        if ended.wait(max(0.0, origin + at_s - time.monotonic())):
            return
        if machine not in journal.in_service:
            continue
        # The time of the request: a busy host answers long after the machine died.
        crashed_at = time.monotonic()
        try:
            operations.platform.inject("machine.crash", machine)
        except SparecraftError as error:
            # Fenced since its state was read; or the platform fails, and the verdict says so.
            if operations.platform.running(machine):
                journal.note_failure(machine, "inject", error)
            continue
        journal.note_crash(machine, crashed_at)
