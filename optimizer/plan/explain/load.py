"""The highest load that a plan carries, and the time until then: the same fleet with more load.

Everything except the load stays: machines, replicas, failure rates, neighbours. Availability does
not depend on the load while the needed nodes carry it, so utilisation or latency reaches its limit
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import UnstableError
from core.tolerances import LIMIT_INSIDE
from optimizer.plan.solve.problem import Path, violations

if TYPE_CHECKING:
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.load import Load

_RESOLUTION = 1e-3  # relative, of the load that is held
_MOST = 1e6  # times the planned load: no limit is in the way


@dataclass(frozen=True)
class LoadMargin:
    """The largest load, over the planned one, at which all limits are kept, and what gives way."""

    factor: float
    gives_way: str


def load_margin(case: Case, path: Path) -> LoadMargin:
    """Return the load up to which `path` keeps all limits that it keeps at the planned load.

    Utilisation grows with the load, so its bound is exact; latency does too, and is bisected down
    to 0.1 %, from below.
    """
    busiest = max(option.utilisation for option in path)
    most = min(_MOST, case.limits.max_utilisation / busiest)
    if not _broken(case, path, most):
        return LoadMargin(most, "utilisation")
    low, high = 1.0, most
    while high / low > 1.0 + _RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _broken(case, path, middle) else (middle, high)
    return LoadMargin(low, " and ".join(_broken(case, path, high)))


def at_load(case: Case, path: Path, factor: float) -> tuple[Case, Path]:
    """Return the case and the fleet with `factor` times the load."""
    other = case.with_load(factor)
    used = tuple(
        replace(o, utilisation=o.utilisation * factor, written=o.written * factor) for o in path
    )
    return other, used


def _broken(case: Case, path: Path, factor: float) -> list[str]:
    other, used = at_load(case, path, factor * (1.0 - LIMIT_INSIDE))  # the bound itself is kept
    try:
        return violations(other.limited(()), used)
    except UnstableError:
        return ["utilisation"]


def load_of(case: Case, load: Load, now_per_s: float, path: Path) -> dict[str, object]:
    """Return the planned load, its headroom and its hours, for plan.json.

    Parameters: now_per_s, pages a second today, on average over the day [1/s].
    """
    planned_per_s = now_per_s * load.factor
    bound = load_margin(case, path)
    body: dict[str, object] = {
        "now_per_s": now_per_s,
        "peak": load.highest,
        "growth_per_month": load.growth_per_month,
        "planned_months": load.months,
        "planned_per_s": planned_per_s,
        "holds_to_per_s": planned_per_s * bound.factor,
        "headroom": bound.factor - 1.0,
        "gives_way": bound.gives_way,
        "holds_months": load.months_until(load.factor * bound.factor),
    }
    if load.hours:
        body["day" if load.day else "week"] = list(_hours(case, load, now_per_s, path))
    return body


def _hours(case: Case, load: Load, now_per_s: float, path: Path) -> Iterator[dict[str, object]]:
    """Yield the load today and the fleet's state, for each hour of the day or the week."""
    for hour, share in enumerate(load.hours):
        other, used = at_load(case, path, share / load.factor)
        yield {
            "hour": hour,
            "per_s": now_per_s * share,
            "utilisation": max(option.utilisation for option in used),
            **other.percentiles_ms(used),
        }
