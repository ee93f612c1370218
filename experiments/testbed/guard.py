"""The stop conditions of `[guard]`, checked against live measurements of a block."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.errors import SparecraftError
from core.runfiles import result
from core.statistics.percentiles import OK, counted_ms, percentile
from experiments.design.guard import Guard
from experiments.record.recorder import Clock
from experiments.record.records import RequestRecord

_LOOK_EVERY_S = 1.0
_CAUSES_MAX = 5  # that a message names
_TITLES = {
    "guard": "stopped by guard",
    "halt": "stopped by halt",
    "watchdog": "stopped by watchdog",
}


@dataclass(frozen=True)
class Stop:
    """The reason for an early end; `condition` is the guard's key, "" for halt and watchdog."""

    by: str  # guard | halt | watchdog
    condition: str
    reason: str
    at_monotonic: float


class Stopped(SparecraftError):
    """A run that its guard, `sparecraft halt` or its watchdog's end stopped; its measurements until
    then are kept."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(
            _TITLES[stop.by],
            expected="a run to its end",
            got=f"{stop.condition}: {stop.reason}" if stop.condition else stop.reason,
        )
        self.stop = stop


def stopped_json(stop: Stop, clock: Clock, events: Iterable[Mapping[str, Any]]) -> result.Stopped:
    """Return `stopped` of manifest.json and result.json; undone_after_s is the time from the stop
    until the last fault or neighbour was reverted, 0 if none was active.
    """
    at_s = clock.since_s(stop.at_monotonic)
    revert_times = [event["time_s"] for event in events if event["action"] == "revert"]
    return {
        "by": stop.by,
        "condition": stop.condition,
        "reason": stop.reason,
        "at_s": round(at_s, 6),
        "undone_after_s": round(max(0.0, max(revert_times, default=at_s) - at_s), 6),
    }


@dataclass(frozen=True)
class Unready:
    """A machine that was seen not ready from one look at it to another [monotonic s]."""

    first: float
    last: float


class GuardWatch:
    """The guard of one block. Times are monotonic; what was before `began` does not count.
    `limit_ms` is the load's time-out, with which failed requests count in p99
    (`core.statistics.percentiles`)."""

    def __init__(self, guard: Guard, began: float, limit_ms: float) -> None:
        self._guard = guard
        self._began = began
        self._limit_ms = limit_ms
        self._looked = began
        self._window: deque[tuple[float, str, float]] = deque()

    def requests(self, now: float, records: Iterable[RequestRecord]) -> None:
        """Add the requests since the last call. A request lost with its load worker is left out."""
        if self._guard.looks_at_requests:
            self._window.extend(
                (
                    now,
                    _cause(record),
                    counted_ms(record["outcome"], record["latency_ms"], self._limit_ms),
                )
                for record in records
                if record["outcome"] != "lost"
            )

    def look(
        self,
        now: float,
        unready: Mapping[str, Unready],
        disturbed: Collection[str],
        healed: Mapping[str, float],
    ) -> None:
        """Check the conditions, at most once a second. Raises Stopped if one holds.

        Parameters: disturbed, the machines with a fault or neighbour now; healed, by machine, the
        end of the last one.
        """
        if now - self._looked < _LOOK_EVERY_S:
            return
        self._looked = now
        while self._window and self._window[0][0] < now - self._guard.window_s:
            self._window.popleft()
        self._look_at_requests(now)
        self._look_at_machines(now, unready, disturbed, healed)

    def _look_at_requests(self, now: float) -> None:
        guard, count = self._guard, len(self._window)
        if count < guard.requests_min:
            return
        sample = f"of {count:,} requests in {guard.window_s:g} s"
        failed = Counter(cause for _, cause, _ in self._window if cause != OK)
        share = failed.total() / count
        if guard.error_share_max is not None and share > guard.error_share_max:
            causes = ", ".join(
                f"{cause} {times}" for cause, times in failed.most_common(_CAUSES_MAX)
            )
            self._stop(now, "error_share_max", f"{share:.1%} {sample} failed ({causes})")
        if guard.p99_ms_max is not None:
            p99_ms = percentile(np.sort([ms for _, _, ms in self._window]), 0.99) or 0.0
            if p99_ms > guard.p99_ms_max:
                self._stop(now, "p99_ms_max", f"p99 {p99_ms:.0f} ms {sample}")

    def _look_at_machines(
        self,
        now: float,
        unready: Mapping[str, Unready],
        disturbed: Collection[str],
        healed: Mapping[str, float],
    ) -> None:
        if self._guard.down_s_max is None:
            return
        for machine, period in unready.items():
            since = max(period.first, self._began, healed.get(machine, self._began))
            if machine not in disturbed and period.last - since > self._guard.down_s_max:
                down_s = period.last - since
                self._stop(now, "down_s_max", f"{machine} is not ready for {down_s:.0f} s")

    def _stop(self, now: float, condition: str, reason: str) -> None:
        limit = getattr(self._guard, condition)
        raise Stopped(Stop("guard", condition, f"{reason}, limit {limit:g}", now))


def _cause(record: RequestRecord) -> str:
    """Return the outcome, with what the answer lacked: `bad_content: no token`."""
    reason = record.get("reason")
    return f"{record['outcome']}: {reason}" if reason else record["outcome"]
