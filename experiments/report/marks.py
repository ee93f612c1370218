"""Axes, marks and legends that the charts of all kinds share. Rows have their colour and shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from core.chart_style import Rows, data
from experiments.report import palette
from experiments.report.figures import Key, log_ticks
from experiments.report.layout import Size

COLOUR = alt.Color("colour:N", scale=None)
FILL = alt.Fill("colour:N", scale=None)
STROKE = alt.Stroke("colour:N", scale=None)
SHAPE = alt.Shape("shape:N", scale=None)


def linear(
    channel: Any, field: str, title: str | None, domain: Sequence[float], **axis: Any
) -> Any:
    """Return `alt.X` or `alt.Y` of a field over a domain; `axis`: further options of its axis."""
    scale = alt.Scale(domain=list(domain), nice=False)
    return channel(f"{field}:Q", scale=scale, axis=alt.Axis(title=title, **axis))


def logarithmic(
    channel: Any, field: str, title: str | None, domain: Sequence[float], **axis: Any
) -> Any:
    """Return the same on a log scale; marks beyond the domain are drawn at its edge."""
    scale = alt.Scale(type="log", domain=list(domain), nice=False, clamp=True)
    ticks = {"values": log_ticks(domain), "format": ",~g", **axis}
    return channel(f"{field}:Q", scale=scale, axis=alt.Axis(title=title, **ticks))


def names(field: str, order: Sequence[str], **axis: Any) -> Any:
    """Return `alt.Y` of names in this order, without a line or ticks."""
    bare = alt.Axis(title=None, ticks=False, domain=False, **axis)
    return alt.Y(f"{field}:N", sort=list(order), axis=bare)


def line(rows: Rows, x: Any, y: Any, **mark: Any) -> Any:
    return alt.Chart(data(rows)).mark_line(**mark).encode(x=x, y=y)


def points(rows: Rows, x: Any, y: Any, size: float = 64, **mark: Any) -> Any:
    chart = alt.Chart(data(rows)).mark_point(filled=True, size=size, **{"opacity": 0.9, **mark})
    return chart.encode(x=x, y=y, fill=FILL, shape=SHAPE)


def rule(rows: Rows, dash: Sequence[float] = (5, 4), **encoding: Any) -> Any:
    """Return a line across the chart at each row; `encoding`: x or y."""
    mark = alt.Chart(data(rows)).mark_rule(stroke=palette.MARKER.light, strokeDash=list(dash))
    return mark.encode(**encoding)


def shade(rows: Rows, colour: str, opacity: float, **encoding: Any) -> Any:
    """Return a rectangle for each row, behind all other marks."""
    mark = alt.Chart(data(rows)).mark_rect(fill=colour, opacity=opacity, clip=True)
    return mark.encode(**encoding)


def stacked_bars(
    bars: Sequence[tuple[str, Sequence[tuple[str, float]]]], x: Any, size: Size,
    step: float = 26, labels: float = 40,
) -> Any:  # fmt: skip
    """Return horizontal bars in their order.

    Parameters: bars, each a name, and colour and length of its parts; x, the axis of `start`;
    labels, room for the names.
    """
    rows = []
    for name, parts in bars:
        end = 0.0
        for colour, length in parts:
            start, end = end, end + length
            rows.append({"bar": name, "start": start, "end": end, "colour": colour})
    bar_names = list(dict.fromkeys(name for name, _ in bars))
    axis = alt.Axis(title=None, ticks=False, labelLimit=170, labelPadding=6)
    y = alt.Y("bar:N", sort=bar_names, axis=axis)
    chart = alt.Chart(data(rows)).mark_bar(height={"band": 0.7})
    return chart.encode(x=x, x2=alt.X2("end:Q"), y=y, color=COLOUR).properties(
        width=size.plot_width - labels, height=step * len(bar_names)
    )


def in_rows(charts: Sequence[Any], across: int) -> Any:
    """Return the charts in rows of `across` charts each."""
    rows = [alt.hconcat(*charts[i : i + across]) for i in range(0, len(charts), across)]
    return alt.vconcat(*rows) if len(rows) > 1 else rows[0]


def arm_keys(
    arms: Sequence[str], kind: str = "", shown: Iterable[str] | None = None
) -> tuple[Key, ...]:
    """Return the legend of the arms in `shown`, or of all: each with the shape of its points, or
    all with the swatch `kind`.
    """
    return tuple(
        Key(kind or palette.arm_shape(arms, arm), palette.arm_colour(arms, arm).light, arm)
        for arm in arms
        if shown is None or arm in shown
    )
