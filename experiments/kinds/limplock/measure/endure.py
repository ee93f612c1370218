"""An operation that goes on under its fault until a server has died of it (Limplock Figure 4).

A row of Table 1 ends after its operations, and what it shows is how long they took. A mechanism
that fills something, such as the updates that a leader keeps for a slow follower, may need longer.
With `[limplock.endure]` the operation is asked for again and again; how long the row's own count
took is told as of any row, and beside it when a server ran out of memory, and what was done over
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import Field

from core.config_file import Strict
from experiments.design.injections import HELD_S_MAX

OUT_OF_MEMORY = "OutOfMemoryError"
LINES = 5000  # of what a machine printed: a server without memory prints a few hundred a second
_LOOK_S = 2.0  # from one look at what machines print to the next: each takes a program
_POLL_S = 0.2


class Endure(Strict):
    """Under a fault the operation goes on beyond its count, until a server has died of it."""

    for_s: Annotated[float, Field(gt=0, le=HELD_S_MAX)]
    """Longest duration [s]."""
    after_s: Annotated[float, Field(ge=0, le=600)] = 60.0
    """Observation after a server has died [s]."""


class Deaths:
    """Machines whose programs ran out of memory, or ended, since the creation of this object.

    printed: what a machine printed last; ended: whether its program has ended. Looked at every two
    seconds, so that a death is told up to so much late.
    """

    def __init__(
        self, machines: Iterable[str], printed: Callable[[str], str], ended: Callable[[str], bool]
    ) -> None:
        self._printed = printed
        self._ended = ended
        self._said = {name: self._count(name) for name in machines}
        self.found: dict[str, float] = {}  # when [monotonic s]

    def look(self, now: float) -> None:
        """Look at all that live."""
        for name in self._said.keys() - self.found.keys():
            count = self._count(name)
            if count > self._said[name] or self._ended(name):
                self.found[name] = now
            self._said[name] = count  # older lines may be gone

    def _count(self, name: str) -> int:
        return self._printed(name).count(OUT_OF_MEMORY)


def outlast(deaths: Deaths, endure: Endure, since: float) -> None:
    """Returns once a server has died and `after_s` are over, or after `for_s`.

    Parameters: since, the fault's begin [monotonic s].
    """
    end = since + endure.for_s
    looked = time.monotonic()
    while (now := time.monotonic()) < end:
        if now - looked >= _LOOK_S:
            deaths.look(now)
            looked = now
        if deaths.found:
            end = min(end, min(deaths.found.values()) + endure.after_s)
        time.sleep(_POLL_S)
