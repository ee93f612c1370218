"""Numbers and windows as people read them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from core.units import duration

MISSING = "–"
# The SLO's words for those of a promise, where the plan made none.
SLO_WORDS = {"kept": "met", "broken": "missed", "undecided": "undecided"}


def number(value: Any, digits: int = 3) -> str:
    """Return a number with about `digits` significant digits, commas between thousands."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")  # 0.9996 becomes 1.00, not 1.000
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{value:.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and abs(value) < 1e-3 else text


def plain(value: Any) -> str:
    """Return a number that somebody chose, as they wrote it: "8" and not "8.00"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return MISSING if value is None else str(value)
    return f"{value:,g}"


def lasting(value: Any) -> str:
    """Return a stated time [s] in the unit that fits it: "15 s", "4 h", "1 day"."""
    is_time = isinstance(value, (int, float)) and not isinstance(value, bool)
    return duration(value) if is_time else plain(value)


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: 1 night, 2 nights."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def listed(items: Sequence[str]) -> str:
    """Return one word or several: "a", "a, b and c"."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def milliseconds(value: Any) -> str:
    """Return a latency: "12.3 ms", "12.5 s" from ten seconds on."""
    if value is None:
        return MISSING
    if value >= 10_000:
        return f"{number(value / 1000)} s"
    return f"{number(value)} ms"


def percent(value: Any, digits: int = 3) -> str:
    return MISSING if value is None else f"{number(100.0 * value, digits)} %"


def factor(value: Any) -> str:
    """Return an improvement factor: "2.13 ×"."""
    return MISSING if value is None else f"{number(value)} ×"


def interval(low: Any, high: Any, show: Callable[[Any], str] | None = None) -> str:
    """Return a confidence interval: "1.60 to 2.81" of a factor, or with `show` "118 to 148 ms", the
    unit once. A factor's bounds below 0.01 and above 100 are not given in figures.
    """
    if low is None or high is None:
        return MISSING
    if show is not None:
        first, last = show(low), show(high)
        unit = last[last.rindex(" ") :] if " " in last else ""
        return f"{first.removesuffix(unit)} to {last}"
    left = "below 0.01" if low < 0.01 else number(low)
    right = "above 100" if high > 100 else number(high)
    return f"{left} to {right}"


def usd(value: Any, digits: int | None = None) -> str:
    """Return an amount of money: "10.63 USD", with `digits` after the point. Default: four below
    ten cents, the price of a small fleet's hour, and two above.
    """
    if value is None:
        return MISSING
    if digits is None:
        digits = 4 if 0 < abs(value) < 0.1 else 2
    return f"{value:,.{digits}f} USD"


def usd_more(value: float, digits: int = 2) -> str:
    """Return a difference of money, with its sign: "+2.61 USD", "-2.61 USD", "0.00 USD"."""
    rounded = round(value, digits)
    return f"{'+' if rounded > 0 else ''}{usd(rounded or 0.0, digits)}"


def command_line(command: Any) -> str:
    """Return the command as it is typed, from a string or a list of words."""
    if isinstance(command, (list, tuple)):
        return shlex.join(str(part) for part in command)
    return str(command or "")


def statistic(key: str) -> str:
    """Return the common name of a statistic of latencies: p99.9 for `p99_9`."""
    return key.replace("_", ".")


def by_number(machine: str) -> list[str | int]:
    """Return the sort key of machines: cache-2 before cache-10."""
    parts = re.split(r"(\d+)", machine)
    return [int(part) if part.isdigit() else part for part in parts]
