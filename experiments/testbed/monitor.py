"""The monitor of a measured fleet: the arbiters' statistics, and the machines' health."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.errors import SparecraftError
from experiments.testbed.agents import Agent, Arbiter
from experiments.testbed.guard import Unready

_POLL_S = 1.0
_HEALTH_EVERY = 3  # polls
_LOST_AFTER = 2  # failed health checks in a row


@dataclass
class Monitor:
    """A thread that polls once a second until `stop`.

    `on_stats(now_monotonic, tier, stats)` is called for each arbiter's answer, `on_restart(tier)`
    when one has been started again, and `on_machine(name, alive, text)` when a machine is lost or
    comes back, but not for those that `expect_down` named (crashed or frozen on purpose).
    """

    arbiters: Mapping[str, Arbiter]
    agents: Mapping[str, Agent]
    on_stats: Callable[[float, str, dict[str, object]], None]
    on_machine: Callable[[str, bool, str], None]
    on_restart: Callable[[str], None]
    missed_polls: int = 0
    _misses: Counter[str] = field(default_factory=Counter)
    _expected: Counter[str] = field(default_factory=Counter)
    _lost: set[str] = field(default_factory=set)
    _unready: dict[str, Unready] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for poll in (self._poll_stats, self._poll_health):
            self._threads.append(threading.Thread(target=poll, name="monitor", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Poll no more; returns when the threads have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def expect_down(self, machine: str) -> None:
        """Note that the machine is about to be crashed or frozen on purpose."""
        with self._guard:
            self._expected[machine] += 1

    def expect_up(self, machine: str) -> None:
        """Note that the machine's own fault is over."""
        with self._guard:
            self._expected[machine] = max(0, self._expected[machine] - 1)
            self._misses[machine] = -_LOST_AFTER  # it needs a moment to come back

    @property
    def unready(self) -> dict[str, Unready]:
        """Machines whose service was not ready, or that did not answer, when last looked at."""
        with self._guard:
            return dict(self._unready)

    def _poll_stats(self) -> None:
        due = time.monotonic()
        uptime_s: dict[str, float] = {}
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            for tier, arbiter in self.arbiters.items():
                try:
                    stats = arbiter.stats()
                except SparecraftError:
                    self.missed_polls += 1
                    continue
                if stats["uptime_s"] < uptime_s.get(tier, 0.0):
                    self.on_restart(tier)
                uptime_s[tier] = stats["uptime_s"]
                self.on_stats(time.monotonic(), tier, stats)
            due = max(due + _POLL_S, time.monotonic() - _POLL_S)

    def _poll_health(self) -> None:
        while not self._stop.wait(_POLL_S * _HEALTH_EVERY):
            for name, agent in self.agents.items():
                if self._stop.is_set():
                    return
                try:
                    ready = bool(agent.health()["ready"])
                except SparecraftError as error:
                    ready = False
                    self._note_miss(name, str(error))
                else:
                    self._note_answer(name)
                self._note_ready(name, ready, time.monotonic())

    def _note_ready(self, name: str, ready: bool, now: float) -> None:
        with self._guard:
            before = self._unready.pop(name, None)
            if not ready:
                self._unready[name] = Unready(before.first if before else now, now)

    def _note_miss(self, name: str, text: str) -> None:
        with self._guard:
            if self._expected[name] > 0:
                return
            self._misses[name] += 1
            if self._misses[name] < _LOST_AFTER or name in self._lost:
                return
            self._lost.add(name)
        self.on_machine(name, False, text)

    def _note_answer(self, name: str) -> None:
        with self._guard:
            self._misses[name] = 0
            if name not in self._lost:
                return
            self._lost.discard(name)
        self.on_machine(name, True, "answers again")
