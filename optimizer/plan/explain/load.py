"""The highest load that a plan carries, and the time until then: the same fleet with more load.

Everything except the load stays: machines, replicas, failure rates, neighbours. Availability does
not depend on the load while the needed nodes carry it, so utilisation or latency reaches its limit
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from core.errors import UnstableError
from core.tolerances import LIMIT_INSIDE
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.load import Load
from optimizer.plan.solve.problem import Path, violations

_RESOLUTION = 1e-3  # relative, of the highest load
_MOST = 1e6  # times the planned load: above, there is no limit


def _headroom(case: Case, path: Path) -> tuple[float, str]:
    """Return the highest load that `path` carries, over the planned one, and what breaks above it.

    Up to that load `path` keeps all limits that it keeps at the planned load. Utilisation is
    proportional to the load, so its bound is exact. Latency grows with the load, and its bound is
    bisected from below to 0.1 %.
    """
    busiest = max(option.utilisation for option in path)
    most = min(_MOST, case.limits.max_utilisation / busiest)
    if not _broken_limits(case, path, most):
        return most, "utilisation"
    low, high = 1.0, most
    while high / low > 1.0 + _RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _broken_limits(case, path, middle) else (middle, high)
    return low, " and ".join(_broken_limits(case, path, high))


def scale_load(case: Case, path: Path, factor: float) -> tuple[Case, Path]:
    scaled = case.with_load(factor)
    scaled_path = tuple(
        replace(o, utilisation=o.utilisation * factor, written=o.written * factor) for o in path
    )
    return scaled, scaled_path


def _broken_limits(case: Case, path: Path, factor: float) -> list[str]:
    scaled, scaled_path = scale_load(
        case, path, factor * (1.0 - LIMIT_INSIDE)
    )  # the bound itself is kept
    try:
        return violations(scaled.problem_with(()), scaled_path)
    except UnstableError:
        return ["utilisation"]


def load_of(case: Case, load: Load, now_per_s: float, path: Path) -> dict[str, object]:
    """Return the planned load, its headroom and its hours, for plan.json.

    Parameters: now_per_s, pages a second today, on average over the day [1/s].
    """
    planned_per_s = now_per_s * load.factor
    factor, gives_way = _headroom(case, path)
    body: dict[str, object] = {
        "now_per_s": now_per_s,
        "peak": load.highest,
        "growth_per_month": load.growth_per_month,
        "planned_months": load.months,
        "planned_per_s": planned_per_s,
        "holds_to_per_s": planned_per_s * factor,
        "headroom": factor - 1.0,
        "gives_way": gives_way,
        "holds_months": load.months_until(load.factor * factor),
    }
    if load.hours:
        body["day" if load.day else "week"] = list(_hour_rows(case, load, now_per_s, path))
    return body


def _hour_rows(case: Case, load: Load, now_per_s: float, path: Path) -> Iterator[dict[str, object]]:
    """Yield the load today and the fleet's state, for each hour of the day or the week."""
    for hour, share in enumerate(load.hours):
        scaled, scaled_path = scale_load(case, path, share / load.factor)
        yield {
            "hour": hour,
            "per_s": now_per_s * share,
            "utilisation": max(option.utilisation for option in scaled_path),
            **scaled.percentiles_ms(scaled_path),
        }
