"""Where a tier's latency comes from: what was measured, else simulated, else the approximation.

`TierSource` is the interface. `Layered` asks its sources in order and says which one answered and
why those before it did not. A source that does not know a station raises NotCovered, which is not
an error of the user; a station that is unstable or impossible is refused by every source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np

from optimizer.errors import InputError, PlannerError, require_count
from optimizer.latency.page import moments_of
from optimizer.latency.station import (
    Station,
    first_of,
    first_of_survival,
    quadrature_s,
    stays,
)

Evidence = Literal["measured", "simulated", "model"]
_CELLS = 2000
_BEYOND = 10  # samples beyond a percentile that make it sufficient


class NotCovered(PlannerError):
    """This source cannot answer for this station; another one may."""


@dataclass(frozen=True)
class TierTail:
    """One request's latency at one tier: its own stay, the first of r copies, without the wait for
    the tiers below."""

    mean_s: float
    variance_s2: float
    p95_s: float
    p99_s: float
    evidence: Evidence
    samples: int  # requests behind it; 0 for a model
    note: str = ""
    source: str = ""
    passed: tuple[str, ...] = ()  # sources asked before, and why they did not answer

    def __post_init__(self) -> None:
        for name in ("mean_s", "variance_s2", "p95_s", "p99_s"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InputError(name, expected="a finite number of at least 0", came=repr(value))
        if not self.mean_s > 0:
            raise InputError("mean_s", expected="above 0", came=repr(self.mean_s))
        if self.p99_s < self.p95_s:
            raise InputError(
                "p99_s", expected=f"at least p95_s, {self.p95_s}", came=f"{self.p99_s}"
            )
        require_count("samples", self.samples)

    def sufficient(self, q: float) -> bool:
        """Whether at least ten samples lie beyond the q-th percentile; a model has no samples."""
        return self.samples * (1.0 - q / 100.0) >= _BEYOND - 1e-9


class TierSource(Protocol):
    """Gives the latency of a tier as configured, with the evidence for it."""

    @property
    def name(self) -> str:
        """What the source is called where its answers are shown."""
        ...

    def tail(self, station: Station) -> TierTail:
        """The tier's latency.  Raises: NotCovered; UnstableError and InputError as `stays`."""
        ...


class Approximation:
    """The law of `optimizer.latency.station`: covers every stable station."""

    name = "approximation"

    def tail(self, station: Station) -> TierTail:
        """Mean and variance over the mixes, percentiles from the mixed survival function."""
        return _approximated(station)


@dataclass(frozen=True)
class Layered:
    """Sources in the order in which they are asked."""

    sources: tuple[TierSource, ...]
    name: str = "layered"

    def tail(self, station: Station) -> TierTail:
        """The first source's answer that covers the station.  Raises: InputError if none does."""
        stays(station)  # what is unstable or impossible is so for every source
        passed: list[str] = []
        for source in self.sources:
            try:
                found = source.tail(station)
            except NotCovered as why:
                passed.append(f"{source.name}: {str(why).rstrip('.')}")
            else:
                return replace(found, source=source.name, passed=tuple(passed))
        raise InputError(
            f"latency of tier {station.name or '(unnamed)'}",
            expected="a source that covers it",
            came="; ".join(passed) or "no source",
            do="Add measured points, or the approximation as the last source.",
        )


@lru_cache(maxsize=16384)
def _approximated(station: Station) -> TierTail:
    state = stays(station)
    t = quadrature_s(station, max(state.means_s), _CELLS)
    survival = np.zeros_like(t)
    parts = []
    for weight, counts in state.mixes:
        survival += weight * first_of_survival(station, state, counts, t)
        parts.append((weight, *first_of(station, state, counts)))
    mean, variance = moments_of(tuple(parts))
    p95, p99 = (float(np.interp(-(1.0 - q), -survival, t)) for q in (0.95, 0.99))
    return TierTail(mean, variance, p95, max(p95, p99), "model", 0, source="approximation")
