"""Price of a little more or less of a limit: the steps next to the plan, and the next nine.

The least cost is a step function of a limit (see `curve.py`), so it has no derivative: here are
the exact steps, where the cost changes and by how much. `usd_per_nine` and `usd_per_ms` are the
slope from the plan's own point of the front to the neighbouring one: what a nine or a millisecond
costs if the whole step is bought.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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

SOLVES = 16  # per limit
CUT = "the search was cut"
_NOTHING_TIGHTER = "no fleet keeps a tighter limit together with the others"
_NOTHING_LOOSER = "no looser limit saves anything"


def marginal_prices(
    problem: Problem, found: Solution, budget: Callable[[int], Budget] = Budget
) -> dict[str, dict[str, Any]]:
    """Per limit that has a price: the steps next to the plan, exact where there are any.

    Parameters: found the optimum of `problem`; budget makes the bound of each limit's search.
    Returns: by `availability`, `p95_ms`, `p99_ms`: `asked`, `reached` (the tightest limit known at
    the same cost), `tighter` and `looser` (`limit`, `usd_per_month`, `usd_more`, `usd_per_nine` or
    `usd_per_ms`, `fleet`, `predicted`; null with a reason in `why`), availability also `next_nine`.
    `tighter.limit` is what the dearer fleet reaches; `looser.limit` the first that is cheaper.
    """
    return {axis.key: _prices(problem, found, axis, budget(SOLVES)) for axis in axes(problem)}


def _prices(problem: Problem, found: Solution, axis: Axis, budget: Budget) -> dict[str, Any]:
    asked = axis.limit(problem)
    assert asked is not None
    assert found.path is not None
    assert found.usd_per_month is not None
    curve = Curve(problem, axis, budget)
    here = curve.learn(found.path, found.usd_per_month, asked)
    body: dict[str, Any] = {"asked": axis.stated(asked)}
    why: dict[str, str] = {}
    searches: dict[str, Callable[[], tuple[Any, str]]] = {
        "tighter": lambda: _neighbour(curve, asked, curve.tighter(here), _NOTHING_TIGHTER),
        "looser": lambda: _neighbour(curve, asked, curve.looser(here), _NOTHING_LOOSER),
    }
    if axis.is_availability:
        searches = {"next_nine": lambda: (_next_nine(curve, here, asked), ""), **searches}
    for name, search in searches.items():
        try:
            body[name], reason = search()
        except SpentError as ended:
            body[name], reason = None, f"{CUT} {ended}"
        if reason:
            why[name] = reason
    same = curve.at(asked)
    assert same is not None  # the plan keeps it
    return {**body, "reached": axis.stated(same.tight), "why": why}


def _neighbour(
    curve: Curve, asked: float, other: Stretch | None, without: str
) -> tuple[dict[str, Any] | None, str]:
    return (None, without) if other is None else (_step(curve, asked, other), "")


def _next_nine(curve: Curve, here: Stretch, asked: float) -> dict[str, Any]:
    target = asked / 10.0
    after = curve.at(target)
    return {
        "target": curve.axis.stated(target),
        "usd_more": None if after is None else round(after.usd - here.usd, 2),
        "fleet": None if after is None else fleet_text(after.path),
    }


def _step(curve: Curve, asked: float, other: Stretch) -> dict[str, Any]:
    """From the plan's point of the front to that of the neighbour `other`."""
    axis, here = curve.axis, curve.at(asked)
    assert here is not None  # the plan keeps it
    more = other.usd - here.usd
    if axis.is_availability:
        unit, far = "usd_per_nine", nines(other.tight) - nines(here.tight)
    else:
        unit, far = "usd_per_ms", here.tight - other.tight
    return {
        "limit": axis.stated(other.tight) if math.isfinite(other.tight) else None,
        "usd_per_month": round(other.usd, 2),
        "usd_more": round(more, 2),
        unit: round(more / far, 4) if math.isfinite(far) and far else None,
        "fleet": fleet_text(other.path),
        "predicted": predicted(curve.problem, other.path),
    }
