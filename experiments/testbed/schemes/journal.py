"""Lines of events.jsonl about machines that fail and are replaced.

| what | kind | action | of |
|---|---|---|---|
| `member` | tier | start, end | a machine is in its tier's service, from start to end |
| `fault` | `machine.crash` | inject, revert | a crash of ours; reverted when it is mended |
| `failover` | `cloud`, `pf`, `ara` | start, end, error | a lost machine; `end` has the parts |
| `failover` | `standby_pool_empty` | start, end | a fail-over waits for a standby |
| `repair` | tier | start, end | a machine is repaired; then it is in the pool, or powered on |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.runfiles.events import Dose
from experiments.design.contracts import PLATFORM_DOSE
from experiments.testbed.faults import Tally


@dataclass
class Journal:
    """Thread-safe; knows which machines are in service and which crashes are not mended.

    `log` is as `Recorder.event`; `tiers`: the tier of each machine.
    """

    log: Callable[..., None]
    tally: Tally
    tiers: Mapping[str, str]
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _in_service: set[str] = field(default_factory=set)
    _crashes: dict[str, tuple[str, float]] = field(default_factory=dict)
    _count: int = 0
    _silent: dict[str, float] = field(default_factory=dict)
    _block_end_s: float | None = None

    @property
    def in_service(self) -> frozenset[str]:
        """The machines that carry load, or are believed to."""
        with self._guard:
            return frozenset(self._in_service)

    def enter(self, machine: str, at: float) -> None:
        """Note that the machine carries load from `at` on."""
        with self._guard:
            if machine in self._in_service:
                return
            self._in_service.add(machine)
        self.log(at, what="member", kind=self.tiers[machine], action="start", machine=machine)

    def leave(self, machine: str, at: float) -> bool:
        """Note that the machine carries no load since `at`; returns False if that was known."""
        with self._guard:
            if machine not in self._in_service:
                return False
            self._in_service.discard(machine)
        self.log(at, what="member", kind=self.tiers[machine], action="end", machine=machine)
        return True

    def note_crash(self, machine: str, at: float) -> None:
        """Note that the crash process took the machine's power away."""
        with self._guard:
            self._count += 1
            self._crashes[machine] = (name := f"crash-{self._count}", at)
            self.tally.planned += 1
            self.tally.injected += 1
            self.tally.struck.add(machine)
        self.log(at, what="fault", kind="machine.crash", action="inject", machine=machine, id=name)
        self.leave(machine, at)

    def crashed_at(self, machine: str) -> float | None:
        """Return the time of the machine's crash [monotonic s]; None without an open crash
        of ours.
        """
        with self._guard:
            return self._crashes[machine][1] if machine in self._crashes else None

    def note_silence(self, machine: str, since: float) -> None:
        """Note that the machine has missed its heartbeats since `since` [monotonic s]."""
        with self._guard:
            self._silent[machine] = since

    def note_block_end(self) -> None:
        """Note that machines are repaired because the block is over, from now on."""
        self._block_end_s = time.monotonic()

    def note_recovery(self, machine: str) -> None:
        now = time.monotonic()
        with self._guard:
            crash = self._crashes.pop(machine, None)
            if crash is None:
                return
            self.tally.reverted += 1
            silent_since = self._silent.pop(machine, None)
        name, at = crash
        silent_s = None if silent_since is None else now - silent_since
        dose: Dose = {
            "asked": now - at, "measured": silent_s, "unit": PLATFORM_DOSE.unit,
            "how": "time from the first heartbeat missed until another serves",
            "bit": None if silent_s is None else True, "samples": 0 if silent_s is None else 1,
            "seconds": now - at, "problem": None,
        }  # fmt: skip
        self.log(
            now, what="fault", kind="machine.crash", action="revert", machine=machine, id=name,
            duration_s=now - at, asked=self._block_end_s, dose=dose,
        )  # fmt: skip

    def note_failure(self, machine: str, step: str, error: Exception) -> None:
        """Note a failed step of a fail-over, also in the run's verdicts."""
        with self._guard:
            self.tally.errors.append(f"fail-over of {machine}: {step}: {error}")
        self.note("failover", step, "error", machine, text=str(error))

    def note(
        self,
        what: str,
        kind: str,
        action: str,
        machine: str,
        *,
        at: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        text: str = "",
    ) -> None:
        """Write any other line, with the time `at` [monotonic s], by default now."""
        self.log(
            time.monotonic() if at is None else at,
            what=what, kind=kind, action=action, machine=machine, parameters=parameters, text=text,
        )  # fmt: skip
