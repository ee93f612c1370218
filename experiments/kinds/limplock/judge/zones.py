r"""Danger zones: where a slightly different fault makes an operation far slower, or far faster.

A system that suffers in proportion to a fault is bad, and foreseen. What is not foreseen is a jump:
a card a little slower, a fault a little longer, and an operation falls from a second to minutes,
because a time-out passes or a queue no longer drains (Xinda; Lu et al., NSDI 2025, call these
danger zones, and read them off curves measured at severities chosen by hand).

The other way round too: a worse fault trips a detector, and the operation is quick again.

Here they are searched. Between two severities a < b with durations t(a), t(b) the elasticity is

    e = log(t(b) / t(a)) / log(b / a):

1 where the operation suffers as much as the device. A zone is a stretch over which t changes by at
least `growth` and |e| is above `elasticity`, both at the bound of t(b) / t(a) that claims less
(`slowdown.py`). A few severities, evenly on a log axis, come first, so that a bump in the middle
is not missed altogether; then the stretch with the largest change that is not narrow yet is halved,
time after time, until every stretch that may hold a zone is narrower than `width`, or the budget is
spent. What a budget left wide is told as open. A zone narrower than the first severities are
apart, with the same duration on both sides, is not found.
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
    def _in_order(self) -> Zones:
        if self.high <= self.low:
            raise refusal(f"more than low, {self.low:g}", got=f"{self.high:g}", key="high")
        if self.first > self.budget:
            raise refusal(f"at most the budget, {self.budget}", got=f"{self.first}", key="first")
        return self


@dataclass(frozen=True)
class Point:
    """A value of the axis, and how long the operation took there, repeat by repeat."""

    at: float
    waits: tuple[Duration, ...]


@dataclass(frozen=True)
class Zone:
    """A stretch over which the operation changes by more than the rule allows."""

    low: float
    high: float
    worse: bool  # whether it is slower at `high`; else faster
    ratio: Slowdown  # of the slower end over the faster
    elasticity: float  # the least that the lower bound leaves, without sign
    narrow: bool  # whether no stretch in it is wide; else the budget ended before


@dataclass(frozen=True)
class Searched:
    """All points in order of the axis, and the zones between them."""

    points: tuple[Point, ...]
    zones: tuple[Zone, ...]
    open: tuple[tuple[float, float], ...]
    """Wide stretches whose ends differ enough to hold a zone, and which are not told to be one."""


def search(measure: Measure, rule: Zones) -> Searched:
    """Measures until every danger zone is narrow or the budget is spent.

    Parameters: measure(value) -> one Duration for each repeat, at least 3 for 0.95.
    """
    points = {at: Point(at, tuple(measure(at))) for at in _first(rule)}
    while len(points) < rule.budget:
        stretch = max(_to_halve(_ordered(points), rule), default=None)
        if stretch is None:
            break
        at = math.sqrt(stretch[1] * stretch[2])
        points[at] = Point(at, tuple(measure(at)))
    return judge_zones(_ordered(points), rule)


def judge_zones(points: Sequence[Point], rule: Zones) -> Searched:
    """Return the zones between points that were measured, in order of the axis.

    The shortest stretches count. One may have points inside where some repeats went one way and
    some the other: then its ends differ, and no two neighbours do.
    """
    zones: dict[int, Zone] = {}  # by the place where one begins
    inside: set[int] = set()  # stretches between neighbours that belong to one
    for length in range(1, len(points)):
        for first in range(len(points) - length):
            stretches = range(first, first + length)
            if inside.isdisjoint(stretches) and (
                zone := _zone(points[first : first + length + 1], rule)
            ):
                zones[first] = zone
                inside.update(stretches)
    undecided = tuple(
        (one.at, other.at)
        for index, (one, other) in enumerate(pairwise(points))
        if index not in inside and _may_hold_one(one, other, rule)
    )
    return Searched(tuple(points), tuple(zones[first] for first in sorted(zones)), undecided)


def _first(rule: Zones) -> Iterator[float]:
    step = (rule.high / rule.low) ** (1.0 / (rule.first - 1))
    yield from (rule.low * step**index for index in range(rule.first - 1))
    yield rule.high


def _ordered(points: dict[float, Point]) -> tuple[Point, ...]:
    return tuple(points[at] for at in sorted(points))


def _to_halve(points: Sequence[Point], rule: Zones) -> Iterator[tuple[float, float, float]]:
    """Change and ends of each stretch that is wide and may hold a zone. Its elasticity says nothing
    yet: a jump is hidden in it among slow growth."""
    for one, other in pairwise(points):
        if _may_hold_one(one, other, rule):
            yield _change(one, other), one.at, other.at


def _may_hold_one(one: Point, other: Point, rule: Zones) -> bool:
    return _is_wide(one, other, rule) and _change(one, other) >= rule.growth


def _is_wide(one: Point, other: Point, rule: Zones) -> bool:
    return other.at / one.at >= rule.width


def _change(one: Point, other: Point) -> float:
    """Of the medians, the slower over the faster; 1 if the faster is of unknown length."""
    faster, slower = sorted((median(one.waits), median(other.waits)), key=lambda m: m.seconds)
    return 1.0 if faster.at_least else slower.seconds / faster.seconds


def _zone(points: Sequence[Point], rule: Zones) -> Zone | None:
    """From the first to the last; None too where waits of the faster end were cut short: their
    length is unknown."""
    one, other = points[0], points[-1]
    worse = median(other.waits).seconds >= median(one.waits).seconds
    faster, slower = (one, other) if worse else (other, one)
    if any(wait.at_least for wait in faster.waits):
        return None
    ratio = slowdown([wait.seconds for wait in faster.waits], slower.waits, rule.confidence)
    if ratio is None or ratio.low < rule.growth:
        return None
    elasticity = math.log(ratio.low) / math.log(other.at / one.at)
    if elasticity < rule.elasticity:
        return None
    narrow = not any(_is_wide(*pair, rule) for pair in pairwise(points))
    return Zone(one.at, other.at, worse, ratio, elasticity, narrow)
