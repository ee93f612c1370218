r"""End to end by moments: a page's mean, variance and percentiles from those of its tiers.

From the back to the front, with m, v the tier's own mean and variance (first of r copies, as a
`TierSource` gives them) of which b is shared by all visits of one connection, and B the time that
one copy spends on the tiers below:

  q visits              mean q m, variance q (v - b) + q^2 b
  middle tier's visits  mean q m, variance q v
  one copy, r = 1       m + B
  first of r copies     one copy's own law is taken back from that of the first,
                        S_1(t) = S_r(t)^(1/r), B is added to its moments, and the first of r of the
                        sum is taken; every law a gamma of its two moments, copies independent
  percentile            of the gamma law with the page's mean and variance

Where this is an approximation, and how far off (predicted / true - 1):
  against the whole law (`PageLatency`, 400 random chains of 1 to 3 tiers, r up to 3, loads up to
  0.7), p95 / p99: median 1.9 / 3.0 %, 95 of 100 chains within 20 / 16 %, 6 of 400 above 50 %; the
  196 without neighbours 0.8 / 2.1 % and 10 / 11 %. The worst are two-humped: few copies on much
  slower servers, p95 between the humps. A lognormal of the same moments: median 4.0 / 6.1 %.
  Adding B to the first of r without taking it back: 24 of 400 above 50 %.
  the fit alone, on measured pages with their own mean and variance (MediaWiki and MariaDB, noisy
  neighbours, 776 requests per arm), p95 / p99: r = (1, 1) -16 / +6 %, (2, 2) +12 / -25 %; a
  lognormal -30 / +5 % and +10 / -18 %.
  tiers measured one by one (the arbiters' last latencies at 464 and 360 polls), page at (1, 1)
  against the same 776 requests: mean +7 %, p95 -8 %, p99 +19 %.
  tiers by the approximation, mean / p95 / p99: (1, 1) round-robin +78 / +38 / +68 % (the whole law:
  +78 / +42 / +48 %), (2, 2) TAD -56 / -16 / -29 % (-55 / -20 / -28 %): there the tiers' law is off,
  not the moments. p99 of 776 requests has fewer than ten beyond it.
So gamma. Two moments know the tail of a page with slowed servers to a quarter, not better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InputError
from optimizer.latency.sources import Evidence, TierTail
from optimizer.latency.station import Station

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_CELLS = 800
_STRENGTH: tuple[Evidence, ...] = ("model", "simulated", "measured")
_LEAST_BEYOND = 10


@dataclass(frozen=True)
class PageMoments:
    """A page by its two moments. Evidence is that of its weakest tier, samples of its thinnest."""

    mean_s: float
    variance_s2: float
    evidence: Evidence
    samples: int

    def percentile_s(self, q: float) -> float:
        """Of the gamma law with these moments [s]."""
        from scipy.special import gammainccinv

        if not 0 < q < 100:
            raise InputError("q", expected="a percentile between 0 and 100", came=repr(q))
        shape = self.mean_s**2 / self.variance_s2
        return float(gammainccinv(shape, 1.0 - q / 100.0) * self.variance_s2 / self.mean_s)


@dataclass(frozen=True)
class MomentError:
    """Predicted over true, minus 1; samples behind the truth, and whether p99 has ten beyond it."""

    mean: float
    p95: float
    p99: float
    samples: int
    p99_sufficient: bool


def page_moments(stations: Sequence[Station], tails: Sequence[TierTail]) -> PageMoments:
    """Mean and variance of the page over tiers from the front.

    Parameters: stations for visits and replicas; tails (n,) of the same tiers, from any source.
    Returns: PageMoments.  Raises: InputError if there is not one tail per station.
    """
    if not len(stations) == len(tails) > 0:
        raise InputError(
            "tails", expected=f"one for each of {len(stations)} tiers", came=str(len(tails))
        )
    below: tuple[float, float] | None = None
    for place in range(len(stations) - 1, -1, -1):
        station, tail = stations[place], tails[place]
        visits = station.tier.visits if place else 1.0
        if below is None:
            apart = max(0.0, tail.variance_s2 - tail.shared_s2)
            shared = min(tail.shared_s2, tail.variance_s2)
            below = visits * tail.mean_s, visits * apart + visits**2 * shared
        else:
            mean, variance = _with_below(station.replicas, tail, below)
            below = visits * mean, visits * variance
    assert below is not None
    evidence = min((t.evidence for t in tails), key=_STRENGTH.index)
    mean, variance = below
    variance = _not_none(mean, variance)
    return PageMoments(mean, variance, evidence, min(t.samples for t in tails))


def error_against(page: PageMoments, latencies_s: Sequence[float] | Array) -> MomentError:
    """How far the page by moments is off measured or simulated latencies [s].

    Raises: InputError for no latencies, or one that is not a finite number of at least 0.
    """
    seen = np.asarray(latencies_s, dtype=float)
    if seen.ndim != 1 or not len(seen):
        raise InputError("latencies_s", expected="a list of latencies", came="none")
    wrong = np.flatnonzero(~(np.isfinite(seen) & (seen >= 0)))
    if len(wrong):
        raise InputError(
            f"latencies_s[{wrong[0]}]",
            expected="a finite number of at least 0",
            came=repr(float(seen[wrong[0]])),
        )
    p95, p99 = (float(v) for v in np.percentile(seen, [95, 99]))
    return MomentError(
        mean=float(page.mean_s / seen.mean()) - 1.0,
        p95=page.percentile_s(95) / p95 - 1.0,
        p99=page.percentile_s(99) / p99 - 1.0,
        samples=len(seen),
        p99_sufficient=len(seen) >= _LEAST_BEYOND * 100,
    )


def _with_below(replicas: int, tail: TierTail, below: tuple[float, float]) -> tuple[float, float]:
    """Mean and variance of the first of r copies, each with what it waits for below."""
    own = tail.mean_s, _not_none(tail.mean_s, tail.variance_s2)
    if replicas > 1:
        own = _power(own, 1.0 / replicas, own[0] * replicas)
    mean, variance = own[0] + below[0], own[1] + below[1]
    return (mean, variance) if replicas == 1 else _power((mean, variance), float(replicas), mean)


def _power(moments: tuple[float, float], power: float, scale_s: float) -> tuple[float, float]:
    """Moments of the law with survival S^power, S the gamma law with `moments`; power r: the first
    of r, 1 / r: one copy if the first of r has `moments`."""
    from scipy.special import gammaincc

    mean, variance = moments
    reach_s = scale_s + 40.0 * math.sqrt(variance) * max(1.0, 1.0 / power)
    t = reach_s * np.linspace(0.0, 1.0, _CELLS) ** 3
    survival = gammaincc(mean**2 / variance, t * (mean / variance)) ** power
    found = float(np.trapezoid(survival, t))
    second = 2.0 * float(np.trapezoid(t * survival, t))
    return found, _not_none(found, second - found**2)


def _not_none(mean: float, variance: float) -> float:
    """A variance that a gamma law can have."""
    return max(variance, 1e-9 * mean**2)
