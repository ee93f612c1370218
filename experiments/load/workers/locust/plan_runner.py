"""One plan in this process: the open loop, the delivery of records, and its CPU time."""

from __future__ import annotations

import gevent

from experiments.load.workers.locust.open_loop import Arrivals, Records
from experiments.load.workers.locust.process import CpuUse


class PlanRunner:
    """Runs one plan. It is made before the start, so a plan that cannot be sent never begins."""

    def __init__(self, records: Records, loop: Arrivals) -> None:
        self._loop = loop
        self._records = records
        self._cpu: CpuUse | None = None

    def run(self, t0_s: float, start_s: float) -> None:
        self._cpu = CpuUse()
        helpers = [
            gevent.spawn(self._records.flush_forever),
            gevent.spawn(self._cpu.sample_forever),
        ]
        try:
            self._loop.run(t0_s, start_s)
        finally:
            gevent.killall(helpers)

    def end(self) -> dict[str, int]:
        """Give up the requests in flight. Returns the numbers launched, recorded and unfinished.

        They are counted after the stop, because requests still end until each is given up.
        """
        self._loop.stop()
        launched, recorded = self._loop.launched, self._loop.recorded
        return {"launched": launched, "recorded": recorded, "unfinished": launched - recorded}

    def cpu(self) -> dict[str, float]:
        """Return the share of a core that the plan took."""
        return self._cpu.values() if self._cpu else {}
