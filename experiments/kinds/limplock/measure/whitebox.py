"""Metrics of machines once a second: into whitebox.parquet and InfluxDB.

All of it is kept, up to ROWS_MAX numbers of a block; from then on what the page shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

import polars as pl

from experiments.kinds.limplock.clients.system import System
from experiments.kinds.limplock.windows import WHITEBOX
from experiments.record.recorder import Recorder

_EVERY_S = 1.0
ROWS_MAX = 1_000_000  # an hour and more of 12 machines that say 20 numbers each
_SAID_MAX = 200
MEASUREMENT = "whitebox"


class Whitebox:
    """A thread for each machine while a `with` lasts, so that one that hangs delays no other.

    systems: the one under test, then those that its tier calls.
    """

    def __init__(self, systems: Sequence[System], recorder: Recorder) -> None:
        self._rows: list[tuple[float, str, str, float]] = []
        self._answered: dict[str, float] = {}
        self._failed: dict[str, tuple[int, str]] = {}  # how often, and how at last
        shown = [one for system in systems for one in system.shown]
        self._shown = {name for one in shown for name in (one.metric, one.limit)}
        self._recorder = recorder
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(system, name), name="whitebox", daemon=True)
            for system in systems
            for name in system.nodes
        ]

    def __enter__(self) -> Whitebox:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10.0)

    def answered(self, machine: str) -> float | None:
        """When it last said anything [monotonic s]."""
        return self._answered.get(machine)

    def table(self) -> pl.DataFrame:
        """Return the kept metrics, as WHITEBOX."""
        return pl.DataFrame(self._rows, WHITEBOX, orient="row")

    def failures(self) -> list[str]:
        """Return a line for each machine of which looks failed."""
        return [
            f"{machine}: {count} looks at its white-box metrics failed, the last by {error}"
            for machine, (count, error) in dict(self._failed).items()
        ]

    def _follow(self, system: System, machine: str) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            found = self._look(system, machine)
            now = time.monotonic()
            if found:
                self._answered[machine] = now
                self._keep(now, machine, found)
            due = max(due + _EVERY_S, now)

    def _look(self, system: System, machine: str) -> Mapping[str, float]:
        """Nothing where it fails: that is no answer, and counted where it raises. A page that does
        not answer is nothing of the adapter's, and not counted."""
        try:
            return system.look(machine)
        except Exception as error:  # whatever it is: the machine is looked at again
            before, _ = self._failed.get(machine, (0, ""))
            self._failed[machine] = (before + 1, repr(error)[:_SAID_MAX])
            return {}

    def _keep(self, now: float, machine: str, found: Mapping[str, float]) -> None:
        time_s = self._recorder.clock.since_s(now)
        all_of_it = len(self._rows) + len(found) <= ROWS_MAX
        self._rows.extend(
            (time_s, machine, metric, float(value))
            for metric, value in found.items()
            if all_of_it or metric in self._shown
        )
        self._recorder.sample(now, MEASUREMENT, {"machine": machine}, found)
