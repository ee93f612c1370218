r"""Danger zones: where a slightly different fault makes an operation far slower, or far faster.

A slowdown in proportion to the fault is bad, but expected. A jump is not expected: a card is a
little slower or a fault a little longer, and an operation takes minutes instead of a second,
because a time-out passes or a queue no longer drains. Lu et al. (Xinda, NSDI 2025) call this a
danger zone, and find zones on curves measured at severities chosen by hand.

The opposite happens too: a worse fault triggers a detector, and the operation is quick again.

This module searches for zones. Between two severities a < b with durations t(a), t(b) the
elasticity is

    e = log(t(b) / t(a)) / log(b / a):

1 if the operation slows down as much as the device. A zone is a stretch over which t changes by at
least `growth` and |e| is above `elasticity`, both at the bound of t(b) / t(a) that claims less
(`slowdown.py`). The first severities are spread evenly on a log axis, so that a bump in the middle
is not missed altogether. Then the stretch with the largest change that is not narrow yet is halved,
again and again, until every stretch that may hold a zone is narrower than `width`, or the budget is
spent. Stretches that are still wide then are reported as open. A zone is not found if it is
narrower than the distance of the first severities and has the same duration on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from core.config_file import Positive, Strict, refusal
from experiments.kinds.limplock.judge.slowdown import Duration, Slowdown, median, slowdown

Measure = Callable[[float], Sequence[Duration]]


class Zones(Strict):
    """The range of a search, and the rule for a danger zone."""

    low: Positive
    """Least value of the axis, in its unit."""
    high: Positive
    """Largest value."""
    budget: Annotated[int, Field(ge=2, le=200)] = 24
    """Largest number of values, each with all repeats."""
    first: Annotated[int, Field(ge=2, le=50)] = 5
    """Values spread over the whole axis at the start."""
    width: Annotated[float, Field(gt=1)] = 1.25
    """Ratio of a stretch's ends below which it is not halved."""
    growth: Annotated[float, Field(gt=1)] = 3.0
    """Least change of the operation over a zone, as a factor."""
    elasticity: Annotated[float, Field(gt=1)] = 2.0
    """Least power of the fault's own change."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Confidence of each bound."""

    @model_validator(mode="after")
    def _check_order(self) -> Zones:
        if self.high <= self.low:
            raise refusal(f"more than low, {self.low:g}", got=f"{self.high:g}", key="high")
        if self.first > self.budget:
            raise refusal(f"at most the budget, {self.budget}", got=f"{self.first}", key="first")
        return self


@dataclass(frozen=True)
class Point:
    """A value of the axis, and the durations of the operation there, repeat by repeat."""

    at: float
    waits: tuple[Duration, ...]


@dataclass(frozen=True)
class Zone:
    """A stretch over which the operation changes by more than the rule allows."""

    low: float
    high: float
    worse: bool  # True: slower at `high`; False: faster
    ratio: Slowdown  # of the slower end over the faster
    elasticity: float  # at the lower bound of the ratio, without sign
    narrow: bool  # False: it has a wide stretch, because the budget was spent


@dataclass(frozen=True)
class SearchResult:
    """All points in order of the axis, and the zones between them."""

    points: tuple[Point, ...]
    zones: tuple[Zone, ...]
    open: tuple[tuple[float, float], ...]
    """Wide stretches whose ends differ enough to hold a zone, and of which none is proved."""


def search(measure: Measure, rule: Zones) -> SearchResult:
    """Measure until every danger zone is narrow or the budget is spent.

    Parameters: measure(value) -> one Duration for each repeat, at least 3 for 0.95.
    """
    points = {at: Point(at, tuple(measure(at))) for at in _first_values(rule)}
    while len(points) < rule.budget:
        stretch = max(_wide_stretches(_sort(points), rule), default=None)
        if stretch is None:
            break
        at = math.sqrt(stretch[1] * stretch[2])
        points[at] = Point(at, tuple(measure(at)))
    return judge_zones(_sort(points), rule)


def judge_zones(points: Sequence[Point], rule: Zones) -> SearchResult:
    """Return the zones between measured points, in order of the axis.

    The shortest stretches count. A zone may have points inside at which some repeats were quick and
    some slow: then its ends differ, but no two neighbours do.
    """
    zones: dict[int, Zone] = {}  # by the index of the first point
    inside: set[int] = set()  # stretches between neighbours that belong to a zone
    for length in range(1, len(points)):
        for first in range(len(points) - length):
            stretches = range(first, first + length)
            if inside.isdisjoint(stretches) and (
                zone := _zone(points[first : first + length + 1], rule)
            ):
                zones[first] = zone
                inside.update(stretches)
    undecided = tuple(
        (lower.at, upper.at)
        for index, (lower, upper) in enumerate(pairwise(points))
        if index not in inside and _may_hold_zone(lower, upper, rule)
    )
    return SearchResult(tuple(points), tuple(zones[first] for first in sorted(zones)), undecided)


def _first_values(rule: Zones) -> Iterator[float]:
    step = (rule.high / rule.low) ** (1.0 / (rule.first - 1))
    yield from (rule.low * step**index for index in range(rule.first - 1))
    yield rule.high


def _sort(points: dict[float, Point]) -> tuple[Point, ...]:
    return tuple(points[at] for at in sorted(points))


def _wide_stretches(points: Sequence[Point], rule: Zones) -> Iterator[tuple[float, float, float]]:
    """Yield change and ends of each stretch that is wide and may hold a zone. Its elasticity does
    not matter yet, because slow growth in the rest of the stretch can hide a jump."""
    for lower, upper in pairwise(points):
        if _may_hold_zone(lower, upper, rule):
            yield _change(lower, upper), lower.at, upper.at


def _may_hold_zone(lower: Point, upper: Point, rule: Zones) -> bool:
    return _is_wide(lower, upper, rule) and _change(lower, upper) >= rule.growth


def _is_wide(lower: Point, upper: Point, rule: Zones) -> bool:
    return upper.at / lower.at >= rule.width


def _change(lower: Point, upper: Point) -> float:
    """Return the slower median over the faster one; 1 if the length of the faster is unknown."""
    medians = (median(lower.waits), median(upper.waits))
    faster, slower = sorted(medians, key=lambda wait: wait.seconds)
    return 1.0 if faster.at_least else slower.seconds / faster.seconds


def _zone(points: Sequence[Point], rule: Zones) -> Zone | None:
    """Return the zone from the first to the last point. None if there is none, or if waits of the
    faster end were cut short, because their length is unknown."""
    lower, upper = points[0], points[-1]
    worse = median(upper.waits).seconds >= median(lower.waits).seconds
    faster, slower = (lower, upper) if worse else (upper, lower)
    if any(wait.at_least for wait in faster.waits):
        return None
    ratio = slowdown([wait.seconds for wait in faster.waits], slower.waits, rule.confidence)
    if ratio is None or ratio.low < rule.growth:
        return None
    elasticity = math.log(ratio.low) / math.log(upper.at / lower.at)
    if elasticity < rule.elasticity:
        return None
    narrow = not any(_is_wide(*pair, rule) for pair in pairwise(points))
    return Zone(lower.at, upper.at, worse, ratio, elasticity, narrow)
