"""Price of a little more or less of a limit: the steps next to the plan, and the next nine.

The least cost is a step function of a limit (see `curve.py`), so it has no derivative. This module
gives the exact steps: their places and changes of cost. `usd_per_nine` and `usd_per_ms` are the
slope from the plan's point of the front to the neighbouring one: the cost of a nine or a
millisecond if the whole step is bought.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NotRequired, TypedDict, TypeVar

from optimizer.plan.explain.curve import (
    Axis,
    Budget,
    Curve,
    SpentError,
    Stretch,
    axes,
    fleet_text,
    nines,
    predicted,
)
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.problem import Problem

_Found = TypeVar("_Found")
SOLVES = 16  # per limit
CUT = "the search was cut"
_NOTHING_TIGHTER = "no fleet keeps a tighter limit together with the others"
_NOTHING_LOOSER = "no looser limit saves anything"


class Step(TypedDict):
    """A neighbouring point of the front, and its slope from the plan's own."""

    limit: float | None
    usd_per_month: float
    usd_more: float
    usd_per_nine: NotRequired[float | None]
    usd_per_ms: NotRequired[float | None]
    fleet: str
    predicted: dict[str, float | None]


class NextNine(TypedDict):
    """A tenth of the unavailability."""

    target: float
    usd_more: float | None
    fleet: str | None


class Prices(TypedDict):
    """The prices around one limit.

    `reached` is the tightest known limit at the same cost. `tighter.limit` is the limit that the
    dearer fleet reaches, `looser.limit` the first limit at which a fleet is cheaper. A step that
    is None has its reason in `why`.
    """

    asked: float
    next_nine: NotRequired[NextNine | None]  # of the availability
    tighter: Step | None
    looser: Step | None
    reached: float
    why: dict[str, str]


def marginal_prices(
    problem: Problem, solution: Solution, budget: Callable[[int], Budget]
) -> dict[str, Prices]:
    """Return the steps next to the plan, for each limit that has a price. Steps are exact.

    Parameters: solution, the optimum of `problem`; budget makes the bound of each limit's search.
    """
    return {axis.key: _prices(problem, solution, axis, budget(SOLVES)) for axis in axes(problem)}


def _prices(problem: Problem, solution: Solution, axis: Axis, budget: Budget) -> Prices:
    limit = axis.limit(problem)
    assert limit is not None
    assert solution.path is not None
    curve = Curve(problem, axis, budget)
    here = curve.learn(solution.path, limit)
    why: dict[str, str] = {}

    def try_search(
        name: str, search: Callable[[], _Found | None], without: str = ""
    ) -> _Found | None:
        try:
            result = search()
        except SpentError as ended:
            why[name] = f"{CUT} {ended}"
            return None
        if result is None:
            why[name] = without
        return result

    nine = None
    if axis.is_availability:
        nine = try_search("next_nine", lambda: _next_nine(curve, here, limit))
    tighter = try_search(
        "tighter", lambda: _step(curve, limit, curve.tighter(here)), _NOTHING_TIGHTER
    )
    looser = try_search("looser", lambda: _step(curve, limit, curve.looser(here)), _NOTHING_LOOSER)
    same = curve.at(limit)
    assert same is not None  # the plan keeps this limit
    prices: Prices = {
        "asked": axis.stated(limit),
        "tighter": tighter,
        "looser": looser,
        "reached": axis.stated(same.tight),
        "why": why,
    }
    return {**prices, "next_nine": nine} if axis.is_availability else prices


def _next_nine(curve: Curve, here: Stretch, limit: float) -> NextNine:
    target = limit / 10.0
    after = curve.at(target)
    return {
        "target": curve.axis.stated(target),
        "usd_more": None if after is None else round(after.usd - here.usd, 2),
        "fleet": None if after is None else fleet_text(after.path),
    }


def _step(curve: Curve, limit: float, neighbour: Stretch | None) -> Step | None:
    """Return the step from the plan's point of the front to `neighbour`, if any."""
    if neighbour is None:
        return None
    axis, here = curve.axis, curve.at(limit)
    assert here is not None  # the plan keeps it
    usd_more = neighbour.usd - here.usd
    if axis.is_availability:
        distance = nines(neighbour.tight) - nines(here.tight)
    else:
        distance = here.tight - neighbour.tight
    slope = round(usd_more / distance, 4) if math.isfinite(distance) and distance else None
    step: Step = {
        "limit": axis.stated(neighbour.tight) if math.isfinite(neighbour.tight) else None,
        "usd_per_month": round(neighbour.usd, 2),
        "usd_more": round(usd_more, 2),
        "fleet": fleet_text(neighbour.path),
        "predicted": predicted(curve.problem, neighbour.path),
    }
    if axis.is_availability:
        return {**step, "usd_per_nine": slope}
    return {**step, "usd_per_ms": slope}
