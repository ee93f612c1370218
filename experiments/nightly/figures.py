"""Figures over nights. A run that is not valid is drawn hollow, and never left out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import altair as alt

from core.chart_style import Row, Rows, data
from experiments.nightly.changes import Change
from experiments.nightly.history import Gain, Percentile, Run, heads
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.marks import FILL, SHAPE, STROKE, arm_keys, linear, logarithmic

NIGHTS_MAX = 120  # that a figure shows
_SHIFT = 0.16  # of an arm from the next, in nights
_WIDTH = 0.7  # of what a night's runs take of it
HEIGHT = 240


class Dated(Protocol):
    """A line of the history that stands on the axis of nights."""

    @property
    def night(self) -> int: ...
    @property
    def at(self) -> datetime: ...
    @property
    def started(self) -> datetime | None: ...


def arms_of(runs: Sequence[Run]) -> list[str]:
    """Return the arms of an entry, the baseline first."""
    names = dict.fromkeys(run.arm for run in runs if run.arm is not None)
    bases = {run.baseline for run in runs}
    return sorted(names, key=lambda arm: arm not in bases)


def latency_figure(runs: Sequence[Run], name: str) -> Figure:
    """Return a percentile of every arm over nights, with its interval and the SLO's limit."""
    arms = arms_of(runs)
    points = [
        point_of(run, runs, arms, percentile.ms, percentile.low_ms, percentile.high_ms)
        for run in runs
        if isinstance(percentile := getattr(run, name), Percentile) and percentile.ms > 0
    ]
    limits = limit_rows(runs, lambda run: run.slo.get(f"{name}_ms"))
    return drawn(
        f"{name}-nights",
        f"{name} over nights",
        f"{name} of each run with its 95 % interval, log scale{shown_nights(runs)}. Hollow: the "
        "run was not valid. A line of the SLO that moves is a design that changed.",
        (*arm_keys(arms), *([limit_key(f"SLO {name}")] if limits else [])),
        lambda size: over_nights(points, limits, runs, size, "ms"),
        "" if points else "No run has this percentile yet.",
    )


def gain_figure(runs: Sequence[Run], statistic: str, changes: Sequence[Change]) -> Figure:
    """Return the factor over the same run's baseline, with the detected changes."""
    arms = arms_of(runs)
    points = [
        point_of(run, runs, arms, math.exp(gain.log), _exp(gain.low), _exp(gain.high))
        for run in runs
        if isinstance(gain := run.gains.get(statistic), Gain)
    ]
    unity = limit_rows(runs, lambda _: 1.0)
    marks = [
        {"x": change.night - 0.5} for change in changes if change.metric == f"gain_{statistic}"
    ]
    keys = [Key("line", palette.MARKER.light, "a change")] if marks else []
    return drawn(
        f"gain-{statistic}",
        f"{statistic} against the same night's baseline",
        f"baseline / arm, log scale, above 1 the arm is faster{shown_nights(runs)}; bars are 95 % "
        "intervals of a single run, and runs differ by more. Hollow: the run was not valid.",
        (*arm_keys(arms, shown=[point["arm"] for point in points]),
         limit_key("no difference"), *keys),
        lambda size: over_nights(points, unity, runs, size, "×", marks),
        "" if points else "No run has two arms to compare.",
    )  # fmt: skip


def filled_and_hollow(base: Any) -> list[Any]:
    return [
        base.transform_filter("datum.filled").mark_point(filled=True, opacity=1).encode(fill=FILL),
        base.transform_filter("!datum.filled")
        .mark_point(filled=True, opacity=1, fill=palette.PAPER.light, strokeWidth=1.8)
        .encode(stroke=STROKE),
    ]


def over_nights(
    points: Rows,
    limits: Rows,
    runs: Sequence[Dated],
    size: Size,
    unit: str,
    marks: Sequence[Mapping[str, Any]] = (),
    linear: bool = False,
) -> Any:
    newest = max(run.night for run in runs)
    first = max(min(run.night for run in runs), newest - NIGHTS_MAX + 1) - 0.5
    points = [row for row in points if row["x"] >= first]
    limits = [row for row in limits if row["x"] >= first]
    x = _night_axis(runs, first, newest + 0.5, size)
    values = [
        row[key] for row in points for key in ("y", "low", "high") if row[key] is not None
    ] + [row["y"] for row in limits]
    channel = _linear_y(unit) if linear else log_y(values, f"{unit} (log scale)")
    y = channel("y")
    base = alt.Chart(data(points)).encode(x=x, y=y)
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6).encode(
        y=channel("low"), y2=alt.Y2("high:Q"), stroke=STROKE
    )  # fmt: skip
    shaped = base.encode(shape=SHAPE, size=alt.value(64))
    line = alt.Chart(data(limits)).mark_line(
        stroke=palette.FAULT.light, strokeDash=[5, 3], strokeWidth=1.6, interpolate="step"
    ).encode(x=x, y=y)  # fmt: skip
    change_rules = alt.Chart(data([dict(mark) for mark in marks if mark["x"] >= first])).mark_rule(
        stroke=palette.MARKER.light, strokeWidth=1.4
    ).encode(x=x)  # fmt: skip
    return alt.layer(change_rules, line, bars, *filled_and_hollow(shaped)).properties(
        width=size.plot_width, height=HEIGHT
    )


def _night_axis(runs: Sequence[Dated], first: float, last: float, size: Size) -> Any:
    """Return an axis of nights by number, with dates as labels; a wrong clock changes no order."""
    dates: dict[int, datetime] = {}
    for run in runs:
        dates.setdefault(run.night, run.started or run.at)
    nights = [night for night in sorted(dates) if night >= first]
    step = math.ceil(len(nights) / (4 if size.small else 9))
    ticks = nights[::-1][::step][::-1]
    days = [f"{dates[night]:%-d %b}" for night in nights]
    again = len(set(days)) < len(days)  # then a date alone does not tell which night it is
    label = "%-d %b\n%H:%M" if again else "%-d %b"
    labels = ", ".join(json.dumps(f"{dates[night]:{label}}".split("\n")) for night in ticks)
    label_of = f"[{labels}][indexof({json.dumps(ticks)}, datum.value)]"
    return linear(alt.X, "x", None, [first, last], values=ticks, grid=False, labelExpr=label_of)


def log_y(values: Sequence[float], title: str) -> Callable[[str], Any]:
    """Return the axis for each field that is drawn along it."""
    domain = [min(values) * 0.85, max(values) * 1.18]
    return lambda field: logarithmic(alt.Y, field, title, domain)


def _linear_y(title: str) -> Callable[[str], Any]:
    axis = alt.Axis(title=title, tickCount=5)
    return lambda field: alt.Y(f"{field}:Q", scale=alt.Scale(zero=True), axis=axis)


def point_of(
    run: Run,
    runs: Sequence[Run],
    arms: Sequence[str | None],
    y: float,
    low: float | None,
    high: float | None,
) -> Row:
    index = arms.index(run.arm) if run.arm in arms else 0
    arm_names = [str(arm) for arm in arms]
    repeats = sorted({candidate.number for candidate in runs if candidate.night == run.night})
    room = _WIDTH / len(repeats)  # of each run of the night, beside the others
    shift = _off_middle(repeats.index(run.number), len(repeats)) * room
    shift += _off_middle(index, len(arms)) * min(_SHIFT / len(repeats), room / max(1, len(arms)))
    return {
        "x": round(run.night + shift, 3), "y": y, "low": low, "high": high, "arm": run.arm,
        "filled": run.valid, "colour": palette.ARMS[index % len(palette.ARMS)].light,
        "shape": palette.arm_shape(arm_names, arm_names[index]),
    }  # fmt: skip


def _off_middle(index: int, count: int) -> float:
    """Return the offset of one of `count` points from the middle of their row."""
    return index - (count - 1) / 2


def limit_rows(runs: Sequence[Run], limit: Callable[[Run], float | None]) -> list[Row]:
    """Return the ends of each run's part of a line."""
    night_limits = [(run.night, y) for run in heads(runs) if (y := limit(run)) is not None]
    return [{"x": night + side, "y": y} for night, y in night_limits for side in (-0.5, 0.5)]


def limit_key(text: str) -> Key:
    return Key("line", palette.FAULT.light, text)


def shown_nights(runs: Sequence[Run]) -> str:
    nights = {run.night for run in runs}
    return f", the last {NIGHTS_MAX} nights" if len(nights) > NIGHTS_MAX else ""


def _exp(value: float | None) -> float | None:
    return None if value is None else min(max(math.exp(value), 0.01), 100.0)
