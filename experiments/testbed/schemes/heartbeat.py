"""Heartbeats: a machine is lost after several consecutive heartbeats without an answer.

A watch reports a loss once and ends; after the replacement a new watch begins. So one loss is one
replacement, whatever the machine does meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import SparecraftError

_JOIN_S = 30.0


@dataclass(frozen=True)
class Lost:
    """A machine without an answer: its first missed heartbeat, and its loss [monotonic s]."""

    machine: str
    since: float
    at: float
    text: str


@dataclass
class Heartbeats:
    """Asks each watched machine every `period_s`; `on_lost` is called from the watch's thread.

    `ask(machine, timeout_s)` returns for a machine that is well and raises SparecraftError
    otherwise: its agent does not answer in time, or its role is not ready.
    """

    ask: Callable[[str, float], None]
    period_s: float
    misses: int
    on_lost: Callable[[Lost], None]
    _stop: threading.Event = field(default_factory=threading.Event)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _watched: set[str] = field(default_factory=set)
    _threads: list[threading.Thread] = field(default_factory=list)

    def watch(self, machine: str) -> None:
        """Begin to ask; does nothing if the machine is watched already."""
        with self._guard:
            if machine in self._watched:
                return
            self._watched.add(machine)
            thread = threading.Thread(
                target=self._follow, args=(machine,), name=f"heartbeat-{machine}", daemon=True
            )
            self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Ask no more; returns when calls of `on_lost` have ended."""
        self._stop.set()
        with self._guard:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=_JOIN_S)

    def _follow(self, machine: str) -> None:
        misses, since = 0, 0.0
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            asked_at = time.monotonic()
            try:
                self.ask(machine, self.period_s)
                misses = 0
            except SparecraftError as error:
                misses += 1
                since = asked_at if misses == 1 else since
                if misses >= self.misses and not self._stop.is_set():
                    with self._guard:
                        self._watched.discard(machine)
                    self.on_lost(Lost(machine, since, time.monotonic(), error.got))
                    return
            due = max(due + self.period_s, time.monotonic())
