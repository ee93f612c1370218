"""The offset of a worker's clock from the master's: monotonic clocks of machines begin anywhere.

The master asks for the time a few times; the quickest answer is the most precise (Cristian,
Probabilistic clock synchronization, 1989): the worker read its clock somewhere between question and
answer, so offset = its time - the middle of these, and half the time between is the uncertainty.

Latency and lag are differences on one worker's clock and do not depend on the offset. The common
start and the place of a request on the run's time line do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXCHANGES = 12


@dataclass(frozen=True)
class Exchange:
    """Question and answer on the master's clock, and the worker's clock in between [s]."""

    asked_s: float
    worker_s: float
    answered_s: float


@dataclass(frozen=True)
class Offset:
    """The worker's clock less the master's, to within `uncertainty_s`."""

    offset_s: float
    uncertainty_s: float


def offset_of(exchanges: Sequence[Exchange], *, same_clock: bool) -> Offset:
    """Return the offset by the quickest exchange.

    Parameters: exchanges, at least one; same_clock, true if both say that they run on one kernel.
    If the exchanges allow it, the offset is then exactly 0; if not, a container may have a clock
    of its own.
    """
    best = min(exchanges, key=lambda exchange: exchange.answered_s - exchange.asked_s)
    offset_s = best.worker_s - (best.asked_s + best.answered_s) / 2
    uncertainty_s = (best.answered_s - best.asked_s) / 2
    if same_clock and abs(offset_s) <= uncertainty_s:
        return Offset(0.0, 0.0)
    return Offset(offset_s, uncertainty_s)


def kernel() -> str:
    """Return the identity of the running kernel; its processes share a monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
