"""The operator of a block: restarts the faulty tier if it does not recover by itself.

A version that cannot admit a repaired node needs that (Broadwell 2004, section 4.2). The operator
sees only what users see: `wait_s` after the fault's end, the requests of the last LOOK_S seconds
are compared with those before the fault. If the share without a good answer within LATE_S is
higher by more than `lost_share`, all services of the tier are restarted at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread

from core.errors import SparecraftError
from core.statistics.percentiles import OK
from experiments.design.experiment import Fault
from experiments.design.schedule import Block
from experiments.kinds.performability.phases import WHAT
from experiments.kinds.performability.section import LOOK_S, PerformabilitySection, tiers_of
from experiments.load.plan import LoadPlan
from experiments.record.records import RequestRecord
from experiments.testbed.restart import restart_tier
from experiments.testbed.testbed import Testbed

LATE_S = 1.0  # a younger request may still be answered well


class Attendant:
    """Follows one block; `BlockRun.run` calls it. `close` waits for a restart that it began."""

    def __init__(
        self, testbed: Testbed, section: PerformabilitySection, fault: Fault, block: Block
    ) -> None:
        self._testbed, self._section, self._fault, self._block = testbed, section, fault, block
        self._good: set[int] = set()
        self._restart: Thread | None = None
        self._has_looked = section.operator is None

    def __call__(self, plan: LoadPlan, now_s: float, records: Sequence[RequestRecord]) -> None:
        """Note the good answers, and look once, `wait_s` after the fault's end."""
        self._good.update(record["index"] for record in records if _is_good(record))
        operator, fault = self._section.operator, self._fault
        if self._has_looked or operator is None or fault.for_s is None:
            return
        warm_up_s = self._testbed.design.experiment.phases.warm_up
        began_s = warm_up_s + fault.at_s
        if now_s < began_s + fault.for_s + operator.wait_s:
            return
        self._has_looked = True
        before = good_share(plan, self._good, warm_up_s, began_s)
        now = good_share(plan, self._good, now_s - LOOK_S, now_s - LATE_S)
        if before - now > self._section.lost_share:
            reason = f"{now:.0%} answered well, {before:.0%} before the fault"
            self._restart = Thread(target=self._act, args=(reason,), name="operator")
            self._restart.start()

    def close(self) -> None:
        """Wait until the tier serves again."""
        if self._restart is not None:
            self._restart.join()

    def _act(self, reason: str) -> None:
        testbed = self._testbed
        identity = f"operator-{self._block.repeat}"
        try:
            self._note("start", identity, reason)
            select = self._fault.select.model_dump()
            for tier in tiers_of(select, testbed.design.fleet.tiers):
                restart_tier(testbed.design, testbed.fleet, tier)
        except SparecraftError as error:
            testbed.verdicts.measurement.fail(f"block {self._block.repeat + 1}, operator: {error}")
        finally:
            self._note("end", identity, "")

    def _note(self, action: str, identity: str, text: str) -> None:
        self._testbed.recorder.event(
            time.monotonic(), what=WHAT, kind="restart", action=action, id=identity, text=text
        )


def _is_good(record: RequestRecord) -> bool:
    late_ms = 1e3 * LATE_S
    return record["outcome"] == OK and (record["latency_ms"] or 0.0) <= late_ms


def good_share(plan: LoadPlan, good: set[int], start_s: float, end_s: float) -> float:
    """Return the share of good answers among requests that were due in [start_s, end_s) of the
    block; 1.0 without requests.
    """
    due = [
        plan.index_of(position)
        for position, offset_s in enumerate(plan.offsets_s)
        if start_s <= offset_s < end_s
    ]
    return sum(index in good for index in due) / len(due) if due else 1.0
