"""A query of a panel, and the common parts of InfluxQL queries.

Rules for InfluxQL of InfluxDB 1.6 to 1.8, and of the v1 endpoints of 2.x and 3.x:
- a cumulative counter is read by NON_NEGATIVE_DERIVATIVE of its MAX, so that an arbiter's restart
  is a gap and not a negative spike;
- a rate of points is COUNT over the bucket's width, because 1.6 has no nested transformations;
- InfluxQL cannot calculate with time, so an event has its end as a field (`end_ms`, Unix time);
- a window that slides is a MOVING_AVERAGE of buckets of one width, whatever the panel's; its query
  begins earlier than the panel by the window (`${__from}`);
- no query wraps a variable between two slashes except in a regular expression on purpose: Grafana
  escapes a variable that it finds between slashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DATASOURCE_UID = "sparecraft-influxdb"

THIS_RUN = """$timeFilter AND "experiment" = '$experiment' AND "run" = '$run'"""
THIS_TIER = f'{THIS_RUN} AND "tier" =~ /^$tier$/'
THESE_HOSTS = """$timeFilter AND "experiment" = '$experiment'"""  # `host` has no run tag


@dataclass(frozen=True)
class PanelQuery:
    """One query of one panel, annotation or variable.

    `interval_s` is the smallest width of a bucket. `may_be_empty` is the reason for which a valid
    run returns no row; if it is empty, a query without rows is a fault.
    """

    panel: str
    ref: str
    influxql: str
    alias: str = ""
    format: Literal["time_series", "table"] = "time_series"
    interval_s: int = 1
    may_be_empty: str = ""

    @property
    def per_tier(self) -> bool:
        """True if Grafana repeats the panel for each tier."""
        return "$tier" in self.influxql


def by_bucket(columns: str, measurement: str, where: str, tag: str = "", fill: str = "none") -> str:
    """Return a query of columns in each bucket, grouped by a tag if it is given."""
    tags = f', "{tag}"' if tag else ""
    return (
        f'SELECT {columns} FROM "{measurement}" '
        f"WHERE {where} GROUP BY time($__interval){tags} fill({fill})"
    )


def rate_of_points(where: str, tag: str = "") -> str:
    """Return a query of requests per second in a bucket."""
    rate = '1000.0 * count("repeat") / $__interval_ms'
    return by_bucket(rate, "request", where, tag, fill="0")


def rate_of(counter: str) -> str:
    """Return the column of the rate of a cumulative counter."""
    return f'non_negative_derivative(max("{counter}"), 1s)'
