"""Downtime of a machine: the dose of a fault by the platform."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from core.errors import SparecraftError
from core.runfiles.events import Dose
from experiments.design.contracts import PLATFORM_DOSE
from experiments.testbed.agents import Agent

_ASK_S = 1.0  # an agent that takes longer does not answer
_PROMPT_S = 0.25  # one that has not yet answered by then is silent so far
_EVERY_S = 1.0
_SILENT_S = 2.0  # one that answers for so long was not struck


@dataclass
class Looks:
    """Looks at one machine; `samples` are their times [monotonic s], and whether it was silent.

    If its agent was started after `since`, the machine was down in between.
    """

    since: float
    samples: list[tuple[float, bool]] = field(default_factory=list)
    started_again: bool = False

    def add(self, at: float, uptime_s: float | None) -> None:
        """Add a look at time `at`; uptime_s is that of the agent, None if it did not answer."""
        self.samples.append((at, uptime_s is None))
        if uptime_s is not None and uptime_s < at - self.since:
            self.started_again = True

    def dose(self, asked_s: float | None) -> Dose:
        """Return the dose: all of the time between two looks that both found the machine silent,
        and half of it if one of them did.

        The fault bit if the machine was silent once, or was started again: power is on or off.
        """
        measured = sum(
            (after - before) * (was_silent + is_silent) / 2
            for (before, was_silent), (after, is_silent) in zip(
                self.samples, self.samples[1:], strict=False
            )
        )
        seconds = self.samples[-1][0] - self.samples[0][0] if self.samples else 0.0
        struck = self.started_again or any(silent for _, silent in self.samples)
        return {
            "asked": asked_s,
            "measured": measured if self.samples else None,
            "unit": PLATFORM_DOSE.unit,
            "how": PLATFORM_DOSE.how,
            "bit": True if struck else False if seconds >= _SILENT_S else None,
            "samples": len(self.samples),
            "seconds": seconds,
            "problem": None,
        }


class DowntimeMeter:
    """Asks a machine's agent, from a thread of its own, until it is closed."""

    def __init__(
        self, agent: Agent, since: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`since` [monotonic s] lies before anything was done to the machine."""
        self._agent, self._now = agent, now
        self._looks = Looks(since)
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._pending = math.inf  # since when an answer is waited for [monotonic s]
        self._thread = threading.Thread(target=self._ask, name="unanswered", daemon=True)
        self._thread.start()

    def dose(self, asked_s: float | None) -> Dose:
        """Return the downtime so far, without waiting; later looks do not count."""
        with self._guard:
            now = self._now()
            if not self._over.is_set() and now - self._pending > _PROMPT_S:
                self._looks.add(now, None)
            self._over.set()
            return self._looks.dose(asked_s)

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while True:
            at = self._pending = self._now()
            uptime_s: float | None = None
            with suppress(SparecraftError):  # silence is what is measured
                uptime_s = float(self._agent.health(_ASK_S)["uptime_s"])
            with self._guard:
                if self._over.is_set():
                    return
                self._looks.add(at, uptime_s)
                self._pending = math.inf
            if self._over.wait(max(0.0, at + _EVERY_S - self._now())):
                return
