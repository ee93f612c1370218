"""Faults, interference and lost machines over time: shaded, and a lane for each machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from core.chart_style import data
from core.runfiles.events import Window, of_kind
from experiments.kinds.compare.folder import RunFolder
from experiments.report import marks, palette
from experiments.report.layout import Size
from experiments.report.text import by_number

AXIS_EXTENT = 66  # room for labels on the left; equal in all panels of a column
_LANES_MAX = 24


def disturbances_of(run: RunFolder) -> list[Window]:
    return of_kind(run.windows, "fault", "interference", "machine")


def run_time(domain: Sequence[float], size: Size) -> Any:
    """Return the axis of the lowest panel."""
    ticks = 5 if size.small else 10
    return marks.linear(
        alt.X, "t", "time since the run began, s", domain, grid=False, tickCount=ticks
    )


def shading(disturbances: Sequence[Window], domain: list[float], x: Any) -> Any:
    """Return the shading of the times with a disturbance, which lies behind the other marks."""
    rows = [
        {
            "t": max(window.start_s, domain[0]),
            "end": min(window.end_s, domain[1]),
            "colour": _window_colour(window),
            "opacity": 0.10 if window.what == "interference" else 0.16,
        }
        for window in disturbances
        if window.end_s > domain[0] and window.start_s < domain[1]
    ]
    return (
        alt.Chart(data(rows))
        .mark_rect()
        .encode(
            x=x,
            x2=alt.X2("end:Q"),
            fill=marks.FILL,
            fillOpacity=alt.FillOpacity("opacity:Q", scale=None),
        )
    )


def lanes(disturbances: Sequence[Window], domain: list[float], size: Size) -> Any:
    """Chart one lane for each disturbed machine; None if no machine was disturbed."""
    inside = [w for w in disturbances if w.end_s > domain[0] and w.start_s < domain[1]]
    machines = sorted({window.machine or "all" for window in inside}, key=by_number)[:_LANES_MAX]
    if not machines:
        return None
    rows = [
        {
            "t": max(window.start_s, domain[0]),
            "end": min(max(window.end_s, window.start_s + 0.3), domain[1]),
            "machine": window.machine or "all",
            "colour": _window_colour(window),
        }
        for window in inside
        if (window.machine or "all") in machines
    ]
    y = marks.names(
        "machine", machines, grid=True, labelLimit=AXIS_EXTENT, labelFontSize=11,
        minExtent=AXIS_EXTENT, maxExtent=AXIS_EXTENT,
    )  # fmt: skip
    return (
        alt.Chart(data(rows), width=size.plot_width, height=15 * len(machines))
        .mark_bar(height=9, cornerRadius=2)
        .encode(x=run_time(domain, size), x2=alt.X2("end:Q"), y=y, fill=marks.FILL)
    )


def _window_colour(window: Window) -> str:
    return (palette.INTERFERENCE if window.what == "interference" else palette.FAULT).light
