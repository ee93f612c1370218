"""An operation that goes on under its fault until a server has died of it (Limplock Figure 4).

A row of Table 1 ends after its operations, and shows their time. A mechanism that fills something,
such as the updates that a leader keeps for a slow follower, may need longer. With
`[limplock.endure]` the operation is repeated without end. The result has the time of the row's own
count as for any row, and also the time at which a server ran out of memory, and the rate over time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import Field

from core.config_file import Strict
from experiments.design.injections import HELD_S_MAX

OUT_OF_MEMORY = "OutOfMemoryError"
LINES = 5000  # of a machine's output: a server without memory prints a few hundred a second
_LOOK_S = 2.0  # between two looks at the machines' output: each look starts a program
_POLL_S = 0.2


class Endure(Strict):
    """Under a fault the operation goes on beyond its count, until a server has died of it."""

    for_s: Annotated[float, Field(gt=0, le=HELD_S_MAX)]
    """Longest duration [s]."""
    after_s: Annotated[float, Field(ge=0, le=600)] = 60.0
    """Observation after a server has died [s]."""


class Deaths:
    """Machines whose programs ran out of memory, or ended, since the creation of this object.

    printed: returns a machine's last output; ended: True if its program has ended. Machines are
    looked at every two seconds, so a death is noticed up to that much late.
    """

    def __init__(
        self, machines: Iterable[str], printed: Callable[[str], str], ended: Callable[[str], bool]
    ) -> None:
        self._printed = printed
        self._ended = ended
        self._counts = {name: self._count(name) for name in machines}
        self.died_at: dict[str, float] = {}  # [monotonic s]

    def look(self, now: float) -> None:
        for name in self._counts.keys() - self.died_at.keys():
            count = self._count(name)
            if count > self._counts[name] or self._ended(name):
                self.died_at[name] = now
            self._counts[name] = count  # it may fall, because old lines are dropped

    def _count(self, name: str) -> int:
        return self._printed(name).count(OUT_OF_MEMORY)


def outlast(deaths: Deaths, endure: Endure, since: float) -> None:
    """Wait until `after_s` after a server has died, at most `for_s`.

    Parameters: since, the fault's begin [monotonic s].
    """
    end = since + endure.for_s
    last_look = time.monotonic()
    while (now := time.monotonic()) < end:
        if now - last_look >= _LOOK_S:
            deaths.look(now)
            last_look = now
        if deaths.died_at:
            end = min(end, min(deaths.died_at.values()) + endure.after_s)
        time.sleep(_POLL_S)
