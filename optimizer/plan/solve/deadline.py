"""The time that a search may take, by a clock that is passed in."""

from __future__ import annotations

import time
from collections.abc import Callable

from core.errors import PlannerError

Clock = Callable[[], float]
Check = Callable[[], object]  # called now and then; ends what runs by an exception


class OutOfTimeError(PlannerError):
    """A search met its bound of time before it came to an answer."""


class Deadline:
    """The moment at which a search has to end: `seconds` from now on by `clock`."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self.clock, self.seconds = clock, seconds
        self._until_s = clock() + seconds

    def within(self, seconds: float) -> Deadline:
        """Return a deadline for a part, not beyond this one."""
        return Deadline(min(seconds, self.left_s()), self.clock)

    def left_s(self) -> float:
        """Return the time that is left, at least 0."""
        return max(0.0, self._until_s - self.clock())

    def over(self) -> bool:
        return self.clock() >= self._until_s

    def check(self) -> None:
        """Raises: OutOfTimeError if no time is left."""
        if self.over():
            raise OutOfTimeError(
                "plan",
                expected=f"the options, or an answer, within {self.seconds:.3g} s",
                got="neither",
                hint="Lower max_nodes or max_replicas, or name the tiers' instance_types.",
            )


def unbounded() -> None:
    """Check nothing."""
