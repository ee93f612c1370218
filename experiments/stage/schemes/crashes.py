"""The crash process: machines in service lose their power at times drawn ahead.

Each machine has a Poisson stream of its own. A crash that falls on a machine that is down or waits
in the pool does not happen: a cold node does not fail, and with exponential gaps leaving it out is
the same as drawing anew once the machine serves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from experiments.errors import SparecraftError
from experiments.stage.schemes.journal import Journal
from experiments.stage.schemes.operations import MachineOperations


class Crashes:
    """Carries out a schedule of (seconds from `origin`, machine) until `stop`."""

    def __init__(
        self,
        schedule: Sequence[tuple[float, str]],
        operations: MachineOperations,
        journal: Journal,
        origin: float,
    ) -> None:
        self._schedule = schedule
        self._operations = operations
        self._journal = journal
        self._origin = origin
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crashes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Crash nothing more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60.0)

    def _run(self) -> None:
        for at_s, machine in self._schedule:
            if self._ended.wait(max(0.0, self._origin + at_s - time.monotonic())):
                return
            if machine not in self._journal.in_service:
                continue
            try:
                self._operations.platform.inject("machine.crash", machine)
            except SparecraftError as error:
                # Fenced since its state was read; or the platform fails, and the verdict says so.
                if self._operations.platform.running(machine):
                    self._journal.failed(machine, "inject", error)
                continue
            self._journal.crashed(machine, time.monotonic())
