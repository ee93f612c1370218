"""Year, month and hour, the same for all parts of the project."""

from __future__ import annotations

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
HOURS_PER_YEAR = YEAR_S / 3600
HOURS_PER_MONTH = 730.0  # of a bill: a twelfth of the year above
FAULT_MONTH_S = 30 * DAY_S  # PCRAFT counts transient faults per 30 days
