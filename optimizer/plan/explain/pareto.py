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

NINES_BEYOND = 3  # beyond the SLO, the end of the drawn range
TIMES_THE_PLAN = 10.0  # the dearest fleet that is drawn: beyond, a tail nears the service time
_SMALL_STEPS = 4.0  # in a gap: if it is wider, it is halved


@dataclass(frozen=True)
class Front:
    """Points of C(x), cheapest first: no fleet reaches the point's x for less.

    closed[i]: there is no point between this one and the next one. A point's cost is also the cost
    of all looser limits down to `same_cost_from` (null: of all). `cut` is the reason why the
    search ended early; empty: these are all points.
    """

    axis: Axis
    points: tuple[Stretch, ...]
    closed: tuple[bool, ...]
    cut: str

    def body(self, problem: Problem, chosen: Path) -> dict[str, object]:
        points = [
            {
                **_point(self.axis, problem, stretch),
                "chosen": abs(stretch.usd - cost(chosen)) <= CENT,
                "next_is_adjacent": closed,
            }
            for stretch, closed in zip(self.points, self.closed, strict=True)
            if math.isfinite(stretch.tight)
        ]
        limit = self.axis.limit(problem)
        return {
            "limit": self.axis.key,
            "asked": None if limit is None else self.axis.stated(limit),
            "complete": not self.cut,
            "cut": self.cut or None,
            "points": points,
        }


def front(
    curve: Curve, solution: Solution, *, points_max: int = 24, finest: float = 0.002
) -> Front:
    """Return the front of cost against the curve's limit, all other limits kept.

    The front goes from the cheapest fleet to the best one that costs at most `TIMES_THE_PLAN` times
    the plan; for availability it ends at most `NINES_BEYOND` nines beyond the SLO. If there are
    more than `points_max` points, or the budget ends, the points are spread over the range. Points
    closer to another one than `finest` (relative to the limit) are not searched. `cut` says so.
    """
    limit = curve.axis.limit(curve.problem)
    assert solution.path is not None
    reached = curve.axis.reached(curve.problem, solution.path)
    curve.learn(solution.path, reached if limit is None else limit)
    end = (limit or reached) / 10**NINES_BEYOND if curve.axis.is_availability else 0.0
    usd_max = TIMES_THE_PLAN * cost(solution.path) + CENT
    cut, unsure = "", 0.0
    try:
        curve.at(math.inf)
        while (gap := _widest_gap(curve, end, usd_max, unsure)) is not None:
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
    closed = tuple(p.tight < end or curve.is_closed(p) for p in points)
    return Front(curve.axis, points, closed, cut)


@dataclass(frozen=True)
class _Gap:
    """The unknown range below a stretch that ends at `high`, down to `low`, where C is known again.

    below: the next tighter limit below high. step: the factor from the neighbour just above to
    high, if that neighbour led to it (otherwise infinite).
    """

    low: float
    high: float
    below: float
    step: float

    @property
    def width(self) -> float:
        if math.isinf(self.high):
            return math.inf
        return math.log(self.high / max(self.low, self.high / FAR))

    @property
    def question(self) -> float:
        """The next limit to solve at: just below high, or half way down if such steps are small."""
        if math.isinf(self.high) or self.width <= _SMALL_STEPS * math.log(self.step):
            return self.below
        return min(middle(self.low, self.high), self.below)


def _widest_gap(curve: Curve, end: float, usd_max: float, unsure: float) -> _Gap | None:
    """Return the widest gap above `end` below a fleet of at most `usd_max`.

    Only the part above `unsure` counts of the gap that contains it.
    """
    gaps = []
    for index, stretch in enumerate(curve.known):
        below = curve.axis.below(stretch.tight)
        if below is None or below < end or stretch.usd > usd_max or curve.is_closed(stretch):
            continue
        low = curve.known[index - 1].loose if index else max(curve.infeasible, end)
        if low <= unsure < stretch.tight:
            low = unsure
        if below <= low:
            continue
        walked = index + 1 < len(curve.known) and curve.is_closed(curve.known[index + 1])
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
