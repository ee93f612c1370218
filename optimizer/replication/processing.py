"""Processing times from arrivals and departures alone: the estimator of sPARE section 5.1.1."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimizer.errors import InputError, require_positive


def processing_times_s(
    arrivals_s: Sequence[float], departures_s: Sequence[float], cores: float
) -> list[float]:
    """Core-seconds that each request used on one server, from when it arrived and left.

    While n requests are present each gets min(1, V / n) of a core, so a request's processing time
    is the sum of that share over the intervals of its stay. On an egalitarian processor-sharing
    server this is the request's demand exactly. What comes and goes at one moment shares no time.

    Parameters: arrivals_s, departures_s (n,) [s] of the same requests, finite; cores V > 0.
    Returns: (n,) [core s], each >= 0.
    Raises: InputError naming the request whose departure is before its arrival or not finite.
    Source: sPARE section 5.1.1.
    """
    require_positive("cores", cores)
    if len(arrivals_s) != len(departures_s):
        raise InputError(
            "departures_s", expected=f"{len(arrivals_s)} times", came=str(len(departures_s))
        )
    changes: dict[float, int] = {}
    for number, (arrived, left) in enumerate(zip(arrivals_s, departures_s, strict=True)):
        if not -math.inf < arrived <= left < math.inf:
            raise InputError(
                f"departures_s of request {number}",
                expected=f"a finite time of at least its arrival {arrived}",
                came=str(left),
            )
        changes[arrived] = changes.get(arrived, 0) + 1
        changes[left] = changes.get(left, 0) - 1
    work = _attained(changes, cores)
    return [
        work[left] - work[arrived] for arrived, left in zip(arrivals_s, departures_s, strict=True)
    ]


def _attained(changes: dict[float, int], cores: float) -> dict[float, float]:
    """Core-seconds that a request present since the beginning would have had at each moment."""
    work: dict[float, float] = {}
    served, present, before = 0.0, 0, 0.0
    for at in sorted(changes):
        if present > 0:
            served += (at - before) * min(1.0, cores / present)
        work[at], before = served, at
        present += changes[at]
    return work
