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
    """Around one limit: `reached` is the tightest known at the same cost; None with a reason in
    `why`. `tighter.limit` is what the dearer fleet reaches, `looser.limit` the first that is
    cheaper."""

    asked: float
    next_nine: NotRequired[NextNine | None]  # of the availability
    tighter: Step | None
    looser: Step | None
    reached: float
    why: dict[str, str]


def marginal_prices(
    problem: Problem, found: Solution, budget: Callable[[int], Budget] = Budget
) -> dict[str, Prices]:
    """Per limit that has a price: the steps next to the plan, exact where there are any.

    Parameters: found the optimum of `problem`; budget makes the bound of each limit's search.
    """
    return {axis.key: _prices(problem, found, axis, budget(SOLVES)) for axis in axes(problem)}


def _prices(problem: Problem, found: Solution, axis: Axis, budget: Budget) -> Prices:
    asked = axis.limit(problem)
    assert asked is not None
    assert found.path is not None
    assert found.usd_per_month is not None
    curve = Curve(problem, axis, budget)
    here = curve.learn(found.path, found.usd_per_month, asked)
    why: dict[str, str] = {}

    def sought(name: str, search: Callable[[], _Found | None], without: str = "") -> _Found | None:
        try:
            found = search()
        except SpentError as ended:
            why[name] = f"{CUT} {ended}"
            return None
        if found is None:
            why[name] = without
        return found

    nine = None
    if axis.is_availability:
        nine = sought("next_nine", lambda: _next_nine(curve, here, asked))
    tighter = sought("tighter", lambda: _step(curve, asked, curve.tighter(here)), _NOTHING_TIGHTER)
    looser = sought("looser", lambda: _step(curve, asked, curve.looser(here)), _NOTHING_LOOSER)
    same = curve.at(asked)
    assert same is not None  # the plan keeps it
    prices: Prices = {
        "asked": axis.stated(asked),
        "tighter": tighter,
        "looser": looser,
        "reached": axis.stated(same.tight),
        "why": why,
    }
    return {**prices, "next_nine": nine} if axis.is_availability else prices


def _next_nine(curve: Curve, here: Stretch, asked: float) -> NextNine:
    target = asked / 10.0
    after = curve.at(target)
    return {
        "target": curve.axis.stated(target),
        "usd_more": None if after is None else round(after.usd - here.usd, 2),
        "fleet": None if after is None else fleet_text(after.path),
    }


def _step(curve: Curve, asked: float, other: Stretch | None) -> Step | None:
    """Return the step from the plan's point of the front to its neighbour `other`, if any."""
    if other is None:
        return None
    axis, here = curve.axis, curve.at(asked)
    assert here is not None  # the plan keeps it
    more = other.usd - here.usd
    if axis.is_availability:
        far = nines(other.tight) - nines(here.tight)
    else:
        far = here.tight - other.tight
    slope = round(more / far, 4) if math.isfinite(far) and far else None
    step: Step = {
        "limit": axis.stated(other.tight) if math.isfinite(other.tight) else None,
        "usd_per_month": round(other.usd, 2),
        "usd_more": round(more, 2),
        "fleet": fleet_text(other.path),
        "predicted": predicted(curve.problem, other.path),
    }
    if axis.is_availability:
        return {**step, "usd_per_nine": slope}
    return {**step, "usd_per_ms": slope}
