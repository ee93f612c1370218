"""Metrics of machines once a second, for whitebox.parquet and InfluxDB.

All metrics are kept, up to ROWS_MAX numbers of a block; after that only those that the page shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import polars as pl

from experiments.kinds.limplock.clients.system import System
from experiments.kinds.limplock.windows import WHITEBOX
from experiments.record.recorder import Recorder

_EVERY_S = 1.0
ROWS_MAX = 1_000_000  # more than an hour of 12 machines with 20 numbers each
_ERROR_CHARACTERS_MAX = 200
MEASUREMENT = "whitebox"


class Whitebox:
    """Reads metrics while a `with` lasts. Each machine has a thread, so that a machine that hangs
    delays no other.

    systems: the system under test, then those that its tier calls.
    """

    def __init__(self, systems: Sequence[System], recorder: Recorder) -> None:
        self._rows: list[tuple[float, str, str, float]] = []
        self._answers: dict[str, float] = {}
        self._failed: dict[str, tuple[int, str]] = {}  # number of failures, and the last error
        page_metrics = [metric for system in systems for metric in system.shown]
        self._page_names = {
            name for metric in page_metrics for name in (metric.metric, metric.limit)
        }
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

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10.0)

    def last_answer(self, machine: str) -> float | None:
        """Return the time of a machine's last answer [monotonic s]."""
        return self._answers.get(machine)

    def table(self) -> pl.DataFrame:
        return pl.DataFrame(self._rows, WHITEBOX, orient="row")

    def failures(self) -> list[str]:
        return [
            f"{machine}: {count} looks at its white-box metrics failed, the last by {error}"
            for machine, (count, error) in dict(self._failed).items()
        ]

    def _follow(self, system: System, machine: str) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            metrics = self._look(system, machine)
            now = time.monotonic()
            if metrics:
                self._answers[machine] = now
                self._keep(now, machine, metrics)
            due = max(due + _EVERY_S, now)

    def _look(self, system: System, machine: str) -> Mapping[str, float]:
        """Return the metrics now; empty if there is no answer. An exception of the adapter is
        counted as a failure; a page that does not answer raises none, and is not counted."""
        try:
            return system.look(machine)
        except Exception as error:  # whatever it is, the machine is looked at again
            failures, _ = self._failed.get(machine, (0, ""))
            self._failed[machine] = (failures + 1, repr(error)[:_ERROR_CHARACTERS_MAX])
            return {}

    def _keep(self, now: float, machine: str, metrics: Mapping[str, float]) -> None:
        time_s = self._recorder.clock.since_s(now)
        has_room = len(self._rows) + len(metrics) <= ROWS_MAX
        self._rows.extend(
            (time_s, machine, metric, float(value))
            for metric, value in metrics.items()
            if has_room or metric in self._page_names
        )
        self._recorder.sample(now, MEASUREMENT, {"machine": machine}, metrics)
