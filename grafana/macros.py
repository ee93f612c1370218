"""Expansion of Grafana's macros in InfluxQL, as in Grafana's InfluxDB datasource.

The order is Grafana's: the dashboard's variables first, then the range's, then $__interval_ms
before $__interval, which is its prefix. A value is inserted unchanged, as Grafana does for a
variable with one value, so a value that could end its quotes is refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEFT_OVER = re.compile(r"\$\{?(?:__)?[A-Za-z]\w*")


class MacroError(ValueError):
    """A value or a query that cannot be expanded."""


@dataclass(frozen=True)
class View:
    """The user's selection in the dashboard: variables and a time range (Unix time)."""

    experiment: str
    run: str
    from_ms: int
    to_ms: int
    tier: str = ""
    entry: str = ""


def expand(influxql: str, view: View, interval_s: int) -> str:
    """Return the query as InfluxDB gets it. Raises MacroError if a value is no plain word."""
    for name in ("experiment", "run", "tier", "entry"):
        if f"${name}" in influxql:
            influxql = influxql.replace(f"${name}", plain(name, getattr(view, name)))
    for macro, text in (
        ("${__from}", str(view.from_ms)),
        ("${__to}", str(view.to_ms)),
        ("$timeFilter", f"time >= {view.from_ms}ms and time <= {view.to_ms}ms"),
        ("$__interval_ms", str(interval_s * 1000)),
        ("$__interval", f"{interval_s}s"),
    ):
        influxql = influxql.replace(macro, text)
    if rest := _LEFT_OVER.search(influxql):
        raise MacroError(f"{rest.group()}, a macro of Grafana's that is not known here")
    return influxql


def plain(name: str, value: str) -> str:
    """Return the value of `name`, safe for a query. Raises MacroError."""
    if not _PLAIN.fullmatch(value):
        raise MacroError(
            f"the {name} {value!r}, which is not of letters, digits, '.', '_' and '-' alone"
        )
    return value
