"""Measured latencies of tiers: a table of points, and what may be read between them.

One row per point: tier, servers, cores, replicas, policy, request_per_s (at the arbiter, before it
replicates), mean_ms, variance_ms2 or std_ms, p95_ms, p99_ms, samples. It answers for the very
station that was measured, or between two rates measured with all else equal: mean, variance and
percentiles linear in the rate, which with all else equal is linear in the utilisation. Latency is
convex in the load, so that errs on the safe side. It never goes beyond what was measured, and it
takes the neighbours as they were in the runs. Nodes that are down are nodes that are not there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import InputError
from optimizer.latency.sources import NotCovered, TierTail
from optimizer.latency.station import POLICIES, Station

if TYPE_CHECKING:
    import polars as pl

_COUNTS = ("servers", "replicas", "samples")
_POSITIVE = ("cores", "request_per_s", "mean_ms")
_AT_LEAST_0 = ("p95_ms", "p99_ms")
_SPREAD = ("variance_ms2", "std_ms")
_NEEDED = ("tier", "policy", *_COUNTS, *_POSITIVE, *_AT_LEAST_0)

Key = tuple[str, int, float, int, str]  # tier, servers, cores, replicas, policy


@dataclass(frozen=True)
class Point:
    """One row, in seconds."""

    request_per_s: float
    tail: TierTail


class MeasuredTable:
    """A TierSource of measured points."""

    name = "measured table"

    def __init__(self, points: Mapping[Key, tuple[Point, ...]]) -> None:
        self._points = dict(points)

    @classmethod
    def read(cls, path: Path) -> MeasuredTable:
        """From a CSV or Parquet file.  Raises: InputError naming the file, row and column."""
        return cls.from_frame(_frame(path), path.name)

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, place: str = "table") -> MeasuredTable:
        """From rows in memory; `place` is what messages call them. Rows count from 1."""
        missing = [c for c in _NEEDED if c not in frame.columns]
        if not any(c in frame.columns for c in _SPREAD):
            missing.append(" or ".join(_SPREAD))
        if missing:
            raise InputError(
                f"{place}: {missing[0]}",
                expected="this column",
                came="only " + ", ".join(frame.columns),
            )
        groups: dict[Key, dict[float, Point]] = {}
        for number, row in enumerate(frame.iter_rows(named=True), start=1):
            key, point = _point(row, f"{place} row {number}")
            same = groups.setdefault(key, {})
            if point.request_per_s in same:
                raise InputError(
                    f"{place} row {number}: request_per_s",
                    expected="one row per tier, servers, cores, replicas, policy and rate",
                    came=f"{point.request_per_s:g} again",
                )
            same[point.request_per_s] = point
        return cls({k: tuple(same[rate] for rate in sorted(same)) for k, same in groups.items()})

    def tail(self, station: Station) -> TierTail:
        """The measured point, or the line between its two neighbours in the rate."""
        if station.limping and station.limp_speed < 1.0:
            raise _uncovered(station, "no limping server", f"{station.limping} limping")
        points = self._group(station)
        rates = [p.request_per_s for p in points]
        above = bisect_left(rates, station.request_per_s * (1.0 - 1e-9))
        if above < len(points) and math.isclose(rates[above], station.request_per_s, rel_tol=1e-9):
            return points[above].tail
        if above in (0, len(points)):
            raise _uncovered(
                station,
                f"a rate in the measured range, {rates[0]:g} to {rates[-1]:g} per s",
                f"{station.request_per_s:g} per s",
            )
        return _between(points[above - 1], points[above], station.request_per_s)

    def _group(self, station: Station) -> tuple[Point, ...]:
        for (tier, servers, cores, replicas, policy), points in self._points.items():
            if (
                (tier, servers, replicas, policy)
                == (station.name, station.up, station.replicas, station.policy)
            ) and math.isclose(cores, station.cores, rel_tol=1e-9):
                return points
        came = f"{station.up} servers of {station.cores:g} cores, r = {station.replicas}"
        raise _uncovered(station, "a configuration that was measured", f"{came}, {station.policy}")


def _frame(path: Path) -> pl.DataFrame:
    import polars as pl

    if path.suffix not in (".csv", ".parquet"):
        raise InputError(str(path), expected="a .csv or .parquet file", came=path.suffix or "none")
    if not path.is_file():
        raise InputError(str(path), expected="a table of measured points", came="no such file")
    try:
        return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(str(path), expected="a readable table", came=str(error)) from error


def _point(row: Mapping[str, Any], place: str) -> tuple[Key, Point]:
    for column in ("tier", "policy"):
        if not isinstance(row[column], str) or not row[column]:
            raise InputError(f"{place}: {column}", expected="a name", came=repr(row[column]))
    if row["policy"] not in POLICIES:
        raise InputError(
            f"{place}: policy", expected=f"one of {', '.join(POLICIES)}", came=row["policy"]
        )
    counts = {c: _number(row, c, place, least=1.0) for c in _COUNTS}
    for column, value in counts.items():
        if value != int(value):
            raise InputError(f"{place}: {column}", expected="an integer", came=f"{value}")
    numbers = {c: _number(row, c, place, above_0=True) for c in _POSITIVE}
    p95_ms, p99_ms = (_number(row, c, place) for c in _AT_LEAST_0)
    if p99_ms < p95_ms:
        raise InputError(
            f"{place}: p99_ms", expected=f"at least p95_ms, {p95_ms:g}", came=f"{p99_ms:g}"
        )
    if counts["replicas"] > counts["servers"]:
        raise InputError(
            f"{place}: replicas", expected=f"at most {counts['servers']:g} servers",
            came=f"{counts['replicas']:g}",
        )  # fmt: skip
    tail = TierTail(
        mean_s=numbers["mean_ms"] / 1e3,
        variance_s2=_variance_ms2(row, place) / 1e6,
        p95_s=p95_ms / 1e3,
        p99_s=p99_ms / 1e3,
        evidence="measured",
        samples=int(counts["samples"]),
    )
    key = (row["tier"], int(counts["servers"]), numbers["cores"], int(counts["replicas"]))
    return (*key, row["policy"]), Point(numbers["request_per_s"], tail)


def _variance_ms2(row: Mapping[str, Any], place: str) -> float:
    if "variance_ms2" in row:
        return _number(row, "variance_ms2", place)
    return _number(row, "std_ms", place) ** 2


def _number(
    row: Mapping[str, Any], column: str, place: str, least: float = 0.0, above_0: bool = False
) -> float:
    value = row[column]
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < math.inf or (above_0 and number == 0):
        bound = "above 0" if above_0 else f"of at least {least:g}"
        came = "a hole" if value is None else repr(value)
        raise InputError(f"{place}: {column}", expected=f"a finite number {bound}", came=came)
    return number


def _between(low: Point, high: Point, rate: float) -> TierTail:
    share = (rate - low.request_per_s) / (high.request_per_s - low.request_per_s)

    def line(a: float, b: float) -> float:
        return a + share * (b - a)

    return TierTail(
        mean_s=line(low.tail.mean_s, high.tail.mean_s),
        variance_s2=line(low.tail.variance_s2, high.tail.variance_s2),
        p95_s=line(low.tail.p95_s, high.tail.p95_s),
        p99_s=line(low.tail.p99_s, high.tail.p99_s),
        evidence="measured",
        samples=min(low.tail.samples, high.tail.samples),
        note=f"between {low.request_per_s:g} and {high.request_per_s:g} per s",
    )


def _uncovered(station: Station, expected: str, came: str) -> NotCovered:
    return NotCovered(f"tier {station.name or '(unnamed)'}", expected=expected, came=came)
