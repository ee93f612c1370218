"""A fault that the testbed's fault controller holds for the length of a `with`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core.errors import MeasurementFailed
from experiments.design.contracts import MACHINE_KINDS
from experiments.design.injections import HELD_S_MAX, Injection, Step
from experiments.testbed.blast_radius import BlastRadius
from experiments.testbed.faults import FaultController
from experiments.testbed.testbed import Testbed

_ARMED_S = 45.0  # an agent may take 30 to answer
_LONGEST_S = HELD_S_MAX + 2 * _ARMED_S


@contextmanager
def active_fault(testbed: Testbed, *steps: Step) -> Iterator[float]:
    """Inject a fault, and yield the time since when all of it is in force [monotonic s]; it is
    undone at the end of the `with`.

    Parameters: steps, which are injected at once, each on a machine of its own.
    Raises: MeasurementFailed if it cannot be injected, or if the `with` lasted longer than
    HELD_S_MAX, so that it was undone before the end.
    """
    log = _FaultLog(testbed)
    stop = threading.Event()
    controller = FaultController(
        testbed.fleet.agents,
        testbed.fleet.platform,
        log.event,
        testbed.tally,
        BlastRadius({}, None),
    )
    injection = Injection(0.0, None, "fault", steps)
    origin = time.monotonic()
    thread = threading.Thread(
        target=controller.run, args=([injection], origin, _LONGEST_S, stop), name="faults"
    )
    thread.start()
    subject = " and ".join(f"{step.kind} on {step.machine}" for step in steps)
    try:
        if not log.reported.wait(_ARMED_S) or log.since is None:
            raise MeasurementFailed(
                subject,
                expected="to be injected",
                got=log.text or f"no answer within {_ARMED_S:g} s",
                hint="`GET /v1/capabilities` of the machine lists its possible faults.",
            )
        yield log.since
        if time.monotonic() - origin >= _LONGEST_S:
            raise MeasurementFailed(
                subject,
                expected=f"to be held for at most {HELD_S_MAX:g} s",
                got="longer: it was undone before",
                hint="Reduce the operation during which it is held.",
            )
    finally:
        stop.set()
        thread.join()


class _FaultLog:
    """The controller's log, passed on to the run's files; `reported` is set by its first event."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self.reported = threading.Event()
        self.since: float | None = None
        self.text = ""

    def event(self, monotonic: float, **event: Any) -> None:
        if event["kind"] in MACHINE_KINDS:
            monitor, down = self._testbed.monitor, event["action"] == "inject"
            (monitor.expect_down if down else monitor.expect_up)(event["machine"])
        self._testbed.recorder.event(monotonic, **event)
        if event["action"] == "inject":
            self.since = monotonic
        elif event["action"] == "error":
            self.text = str(event["text"])
        self.reported.set()
