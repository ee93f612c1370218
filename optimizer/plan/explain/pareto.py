"""The front of cost against a limit, all other limits kept: every point a proved optimum.

The epsilon-constraint method (Haimes 1971) on the curve of `curve.py`: each solve asks just below a
known point, or half way down if steps are small and the unknown range is wide. So a front that is
cut off, by the number of points or by time, covers its whole range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.tolerances import CENT
from optimizer.plan.explain.curve import (
    FAR,
    UNPROVED,
    Axis,
    Curve,
    SpentError,
    Stretch,
    UnprovedError,
    fleet_text,
    middle,
    nines,
    predicted,
)
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem, unavailability_of

NINES_BEYOND = 3  # the SLO, up to which availability is drawn
TIMES_THE_PLAN = 10.0  # the dearest fleet that is drawn: beyond, a tail nears the service time
_SMALL_STEPS = 4.0  # to a gap: then it is halved


@dataclass(frozen=True)
class Front:
    """Points of C(x), cheapest first: no fleet reaches the point's x for less.

    closed[i]: the next point is the next one there is. A point's cost is also that of all looser
    limits down to `same_cost_from` (null: of all). `cut` says what ended the search, if
    anything did; empty: these are all points.
    """

    axis: Axis
    points: tuple[Stretch, ...]
    closed: tuple[bool, ...]
    cut: str

    def body(self, problem: Problem, chosen: Path) -> dict[str, object]:
        """Return the front for plan.json."""
        points = [
            {
                **_point(self.axis, problem, stretch),
                "chosen": abs(stretch.usd - cost(chosen)) <= CENT,
                "next_is_adjacent": closed,
            }
            for stretch, closed in zip(self.points, self.closed, strict=True)
            if math.isfinite(stretch.tight)
        ]
        asked = self.axis.limit(problem)
        return {
            "limit": self.axis.key,
            "asked": None if asked is None else self.axis.stated(asked),
            "complete": not self.cut,
            "cut": self.cut or None,
            "points": points,
        }


def front(curve: Curve, found: Solution, *, points_max: int = 24, finest: float = 0.002) -> Front:
    """Return the front of cost against the curve's limit, all other limits kept.

    From the cheapest fleet at all to the best that costs at most `TIMES_THE_PLAN` times the plan,
    for availability at most `NINES_BEYOND` nines beyond the SLO. If there are more than
    `points_max` points, or the budget ends, those found are spread over the range; points closer
    than `finest` (of the limit, relative to it) to a found one are not looked for. `cut` says so.
    """
    asked = curve.axis.limit(curve.problem)
    assert found.path is not None
    assert found.usd_per_month is not None
    reached = curve.axis.reached(curve.problem, found.path)
    curve.learn(found.path, found.usd_per_month, reached if asked is None else asked)
    end = (asked or reached) / 10**NINES_BEYOND if curve.axis.is_availability else 0.0
    usd_max = TIMES_THE_PLAN * found.usd_per_month + CENT
    cut, unsure = "", 0.0
    try:
        curve.at(math.inf)
        while (gap := _widest(curve, end, usd_max, unsure)) is not None:
            if gap.width < finest:
                raise SpentError(f"at steps below {finest:.1%}")
            if len(curve.known) >= points_max:
                raise SpentError(f"after {points_max} points")
            try:
                curve.at(gap.question)
            except UnprovedError:
                unsure = gap.question
            curve.budget.say(f"cost against {curve.axis.key}: {len(curve.known)} points")
        if unsure:
            raise SpentError(UNPROVED)
    except SpentError as ended:
        cut = f"cut {ended}: there may be more points than these"
    points = tuple(p for p in reversed(curve.known) if p.loose >= end and p.usd <= usd_max)
    closed = tuple(p.tight < end or curve.closed(p) for p in points)
    return Front(curve.axis, points, closed, cut)


@dataclass(frozen=True)
class _Gap:
    """The unknown below a stretch that ends at `high`: down to `low`, where C is known again.

    below: the tightest step from high; step: from the neighbour that led to high just below it, as
    a factor (infinite, if none did).
    """

    low: float
    high: float
    below: float
    step: float

    @property
    def width(self) -> float:
        """Width on a log scale."""
        if math.isinf(self.high):
            return math.inf
        return math.log(self.high / max(self.low, self.high / FAR))

    @property
    def question(self) -> float:
        """The limit to solve at: just below high; half way down, if such steps are small here."""
        if math.isinf(self.high) or self.width <= _SMALL_STEPS * math.log(self.step):
            return self.below
        return min(middle(self.low, self.high), self.below)


def _widest(curve: Curve, end: float, usd_max: float, unsure: float) -> _Gap | None:
    """Return the widest gap above `end` below a fleet of at most `usd_max`.

    Of the gap that contains `unsure` only the part above it counts.
    """
    gaps = []
    for index, stretch in enumerate(curve.known):
        below = curve.axis.below(stretch.tight)
        if below is None or below < end or stretch.usd > usd_max or curve.closed(stretch):
            continue
        low = curve.known[index - 1].loose if index else max(curve.infeasible, end)
        if low <= unsure < stretch.tight:
            low = unsure
        if below <= low:
            continue
        walked = index + 1 < len(curve.known) and curve.closed(curve.known[index + 1])
        step = curve.known[index + 1].tight / stretch.tight if walked else math.inf
        gaps.append(_Gap(low, stretch.tight, below, step))
    return max(gaps, key=lambda gap: gap.width, default=None)


def _point(axis: Axis, problem: Problem, stretch: Stretch) -> dict[str, object]:
    unavailability = unavailability_of(stretch.path)
    return {
        axis.key: axis.stated(stretch.tight),
        "same_cost_from": axis.stated(stretch.loose) if math.isfinite(stretch.loose) else None,
        "nines": round(nines(unavailability), 4),
        "usd_per_month": round(stretch.usd, 2),
        "fleet": fleet_text(stretch.path),
        "predicted": predicted(problem, stretch.path),
    }
