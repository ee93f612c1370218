"""Watches the fleet while it is measured: the arbiters' statistics, and whether machines live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from experiments.errors import SparecraftError

_POLL_S = 1.0
_HEALTH_EVERY = 3  # polls
_LOST_AFTER = 2  # failed health checks in a row


class StatsSource(Protocol):
    """An arbiter's admin API."""

    def stats(self) -> dict[str, Any]: ...


class HealthSource(Protocol):
    """A node agent."""

    def health(self) -> dict[str, Any]: ...


class Monitor:
    """A thread that polls once a second until `stop`.

    `on_stats(now_monotonic, tier, stats)` is called for each arbiter's answer, and
    `on_machine(name, alive, text)` when a machine is lost or comes back, but not for those that
    `expect_down` named (crashed or frozen on purpose).
    """

    def __init__(
        self,
        arbiters: Mapping[str, StatsSource],
        agents: Mapping[str, HealthSource],
        on_stats: Callable[[float, str, dict[str, Any]], None],
        on_machine: Callable[[str, bool, str], None],
    ) -> None:
        self._arbiters = arbiters
        self._agents = agents
        self._on_stats = on_stats
        self._on_machine = on_machine
        self._misses: dict[str, int] = dict.fromkeys(agents, 0)
        self._lost: set[str] = set()
        self._expected: dict[str, int] = {}
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll_stats, name="monitor-stats", daemon=True),
            threading.Thread(target=self._poll_health, name="monitor-health", daemon=True),
        ]
        self.missed_polls = 0

    def start(self) -> None:
        """Begin polling."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Poll no more; returns when the threads have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def expect_down(self, machine: str) -> None:
        """The machine is about to be crashed or frozen on purpose."""
        with self._guard:
            self._expected[machine] = self._expected.get(machine, 0) + 1

    def expect_up(self, machine: str) -> None:
        """The machine's own fault is over."""
        with self._guard:
            self._expected[machine] = max(0, self._expected.get(machine, 0) - 1)
            self._misses[machine] = -_LOST_AFTER  # it needs a moment to come back

    @property
    def lost(self) -> tuple[str, ...]:
        """Machines that do not answer now and should."""
        with self._guard:
            return tuple(sorted(self._lost))

    def _poll_stats(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            for tier, arbiter in self._arbiters.items():
                try:
                    stats = arbiter.stats()
                except SparecraftError:
                    self.missed_polls += 1
                    continue
                self._on_stats(time.monotonic(), tier, stats)
            due = max(due + _POLL_S, time.monotonic() - _POLL_S)

    def _poll_health(self) -> None:
        while not self._stop.wait(_POLL_S * _HEALTH_EVERY):
            for name, agent in self._agents.items():
                if self._stop.is_set():
                    return
                try:
                    agent.health()
                except SparecraftError as error:
                    self._missed(name, str(error))
                else:
                    self._answered(name)

    def _missed(self, name: str, text: str) -> None:
        with self._guard:
            if self._expected.get(name, 0) > 0:
                return
            self._misses[name] += 1
            if self._misses[name] < _LOST_AFTER or name in self._lost:
                return
            self._lost.add(name)
        self._on_machine(name, False, text)

    def _answered(self, name: str) -> None:
        with self._guard:
            self._misses[name] = 0
            if name not in self._lost:
                return
            self._lost.discard(name)
        self._on_machine(name, True, "answers again")
