"""Year, month and hour, the same for all parts of the project."""

from __future__ import annotations

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
HOURS_PER_YEAR = YEAR_S / 3600
TIME_S_MOST = 100 * YEAR_S  # of a service, a fail-over, a repair: nobody observed a longer one
LIMPS_PER_YEAR_MOST = HOURS_PER_YEAR  # one an hour; a node that limps more often is a slow one
CRASHES_PER_YEAR_MOST = YEAR_S  # one a second: no machine starts so fast
HOURS_PER_MONTH = 730.0  # of a bill: a twelfth of the year above
FAULT_MONTH_S = 30 * DAY_S  # PCRAFT counts transient faults per 30 days

_UNITS = (("day", DAY_S, DAY_S), ("h", 3600.0, 3600.0), ("min", 60.0, 120.0))  # [s] of one, from


def duration(seconds: float) -> str:
    """Return a time for people, with three digits: "15 s", "25 min", "4 h", "1 day", "30 days"."""
    for unit, size_s, least_s in _UNITS:
        if seconds >= least_s:
            value = seconds / size_s
            count = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
            return f"{count} {unit}" + ("s" if unit == "day" and count != "1" else "")
    return f"{seconds:.3g} s"
