"""What machines say of themselves once a second: into whitebox.parquet and InfluxDB."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from experiments.kinds.limplock.system import System
from experiments.record.recorder import Recorder

_EVERY_S = 1.0
MEASUREMENT = "whitebox"


class Whitebox:
    """A thread for each machine while a `with` lasts, so that one that hangs delays no other."""

    def __init__(self, system: System, recorder: Recorder) -> None:
        self.rows: list[dict[str, Any]] = []
        self._answered: dict[str, float] = {}
        self._system = system
        self._recorder = recorder
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(name,), name="whitebox", daemon=True)
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

    def _follow(self, machine: str) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            found = self._system.look(machine)
            now = time.monotonic()
            if found:
                self._answered[machine] = now
                self._keep(now, machine, found)
            due = max(due + _EVERY_S, now)

    def _keep(self, now: float, machine: str, found: Mapping[str, float]) -> None:
        time_s = self._recorder.clock.since_s(now)
        shown = {one.metric for one in self._system.shown}
        self.rows.extend(
            {"time_s": time_s, "machine": machine, "metric": metric, "value": value}
            for metric, value in found.items()
            if metric in shown
        )
        self._recorder.sample(now, MEASUREMENT, {"machine": machine}, found)
