"""Slowdowns by row (Limplock Fig. 1), and the course of a repeat (Fig. 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.windows import PROBE, ROW, Left, Window
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn, log_ticks
from experiments.report.layout import Size
from optimizer.style import data

_BINS = 160
_PANELS_MAX = 3
_TOP, _BOTTOM = 2000.0, 0.3  # of slowdowns: what is beyond is drawn at the edge
Rows = list[dict[str, Any]]


def slowdown_figure(result: Mapping[str, Any]) -> Figure:
    """Each scenario's slowdown with its interval, on a log axis, a graph a row; arms by colour."""
    scenarios, arms = result["scenarios"], result["arms"]
    known = [one for one in scenarios if one["slowdown"]]
    order = list(dict.fromkeys(label(one["scenario"]) for one in scenarios))
    colours = {arm: palette.arm_colour(arms, arm).light for arm in arms}
    caption = (
        "Time of the row's operation over its base, median of the ratios, with an interval of "
        f"{result['rule']['confidence']:.0%} at each end. A triangle is at least so much: it was "
        f"cut short. Dashed: {result['rule']['factor']:g} ×, above which it is limplock."
    )
    note = "" if known else "No slowdown is known."
    legend = tuple(Key("circle", colour, arm) for arm, colour in colours.items())
    title = "Slowdowns"
    return drawn(
        "slowdowns", title, caption, legend,
        lambda size: _slowdowns(known, order, colours, float(result["rule"]["factor"]), size), note,
    )  # fmt: skip


def _slowdowns(
    known: Sequence[Mapping[str, Any]],
    order: Sequence[str],
    colours: Mapping[str, str],
    limit: float,
    size: Size,
) -> Any:
    names = list(dict.fromkeys((one["row"], one["part"]) for one in known))
    columns = 2 if size.small else min(5, len(names))
    highest = max(one["slowdown"]["high"] or one["slowdown"]["factor"] for one in known)
    lowest = min(one["slowdown"]["low"] for one in known)
    domain = [max(_BOTTOM, min(0.7, lowest * 0.9)), min(_TOP, max(10.0, highest * 1.5))]
    width = (size.plot_width - 44 * columns) / columns
    graphs = [
        _row_graph(
            [one for one in known if (one["row"], one["part"]) == name],
            f"{name[0]}, {name[1]}", order, colours, limit, domain, width,
            first=place % columns == 0,
        )
        for place, name in enumerate(names)
    ]  # fmt: skip
    return alt.concat(*graphs, columns=columns)


def _row_graph(
    mine: Sequence[Mapping[str, Any]],
    title: str,
    order: Sequence[str],
    colours: Mapping[str, str],
    limit: float,
    domain: Sequence[float],
    width: float,
    *,
    first: bool,
) -> Any:
    arms = list(colours)
    rows: Rows = [
        {
            "scenario": label(one["scenario"]),
            "factor": min(max(one["slowdown"]["factor"], domain[0]), domain[1]),
            "low": min(max(one["slowdown"]["low"], domain[0]), domain[1]),
            "high": min(one["slowdown"]["high"] or domain[1], domain[1]),
            "colour": colours[one["arm"]],
            "shape": "triangle-up" if one["slowdown"]["at_least"] else "circle",
            "offset": arms.index(one["arm"]),
        }
        for one in mine
    ]
    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    axis = alt.Axis(
        title="slowdown (log scale)" if first else None, values=log_ticks(domain), format="~g"
    )
    x = alt.X("scenario:N", sort=list(order), axis=alt.Axis(title=None, labelAngle=-45))
    offset = alt.XOffset("offset:N")
    chart = alt.Chart(data(rows))
    line = (
        alt.Chart(data([{"factor": limit}]))
        .mark_rule(stroke=palette.MARKER.light, strokeDash=[5, 4])
        .encode(y=alt.Y("factor:Q", scale=scale, axis=axis))
    )
    bars = chart.mark_rule(strokeWidth=1.6).encode(
        x=x, xOffset=offset, y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q",
        stroke=alt.Stroke("colour:N", scale=None),
    )  # fmt: skip
    points = chart.mark_point(filled=True, size=60, opacity=1).encode(
        x=x, xOffset=offset, y=alt.Y("factor:Q", scale=scale, axis=axis),
        fill=alt.Fill("colour:N", scale=None), shape=alt.Shape("shape:N", scale=None),
    )  # fmt: skip
    return alt.layer(line, bars, points).properties(width=width, height=190, title=title)


def course_figures(
    left: Left, windows: Sequence[Window], asked: pl.DataFrame, whitebox: pl.DataFrame
) -> list[Figure]:
    """Of each row and arm the last repeat that has a scenario."""
    found = []
    for arm, row, part in dict.fromkeys((w.arm, w.row, w.part) for w in windows):
        mine = [w for w in windows if (w.arm, w.row, w.part) == (arm, row, part)]
        last = max((w.repeat for w in mine if w.scenario != BASE), default=None)
        if last is not None:
            course = sorted((w for w in mine if w.repeat == last), key=lambda w: w.start_s)
            found.append(_course(left, course, asked, whitebox))
    return found


def _course(
    left: Left, course: Sequence[Window], asked: pl.DataFrame, whitebox: pl.DataFrame
) -> Figure:
    first = course[0]
    zero_s, end_s = first.start_s, course[-1].end_s
    names = sorted({name for window in course for name in window.labels})
    colours = dict(zip(names, (colour.light for colour in palette.ARMS), strict=False))
    inside = asked.filter((pl.col("end_s") >= zero_s) & (pl.col("end_s") <= end_s))
    panels = [
        ("operations per second", _throughput(inside, zero_s, end_s), False),
        ("median probe, ms (log scale)", _probed(inside, colours, zero_s, end_s), True),
        *_told(left, whitebox, colours, zero_s, end_s),
    ]
    title = f"{first.row}, {first.part}, {first.arm}: repeat {first.repeat + 1} over time"
    limped = ", ".join(
        f"{label(w.scenario)} {w.limping} ({w.labels[w.limping]})"
        for w in course if w.scenario != BASE
    )  # fmt: skip
    caption = (
        f"Shaded: the fault's windows, in this order: {limped}. The first stretch is the base. "
        "Top: the row's operation, done per second; between its runs nobody asks for it."
    )
    legend = tuple(
        Key("line", colour, f"{name} (at first {first.labels.get(name, '')})")
        for name, colour in colours.items()
    )
    shades: Rows = [
        {"from": w.start_s - zero_s, "to": w.end_s - zero_s, "name": label(w.scenario)}
        for w in course if w.scenario != BASE
    ]  # fmt: skip
    identity = f"course-{first.arm}-{first.row}-{first.part}".lower()
    return drawn(
        identity, title, caption, legend,
        lambda size: _panels(panels, shades, end_s - zero_s, size),
        "" if panels[0][1] else "The operation never succeeded.",
    )  # fmt: skip


def _width_s(zero_s: float, end_s: float) -> float:
    return max(0.5, (end_s - zero_s) / _BINS)


def _throughput(asked: pl.DataFrame, zero_s: float, end_s: float) -> Rows:
    width_s = _width_s(zero_s, end_s)
    good = asked.filter(purpose=ROW, outcome="ok")
    counts = dict(
        good.select(((pl.col("end_s") - zero_s) / width_s).floor().cast(pl.Int64).alias("bin"))
        .group_by("bin")
        .len()
        .iter_rows()
    )
    if not counts:
        return []
    bins = range(math.ceil((end_s - zero_s) / width_s))
    return [
        {"t": (k + 0.5) * width_s, "value": counts.get(k, 0) / width_s,
         "colour": palette.MARKER.light, "name": "row"}
        for k in bins
    ]  # fmt: skip


def _probed(asked: pl.DataFrame, colours: Mapping[str, str], zero_s: float, end_s: float) -> Rows:
    """Of each machine: the median of the operation that is slowest in each stretch of time."""
    width_s = _width_s(zero_s, end_s)
    binned = (
        asked.filter(purpose=PROBE)
        .with_columns(
            ((pl.col("end_s") - zero_s) / width_s).floor().alias("bin"),
            ((pl.col("end_s") - pl.col("start_s")) * 1000.0).alias("ms"),
        )
        .group_by("machine", "operation", "bin")
        .agg(pl.col("ms").median())
        .group_by("machine", "bin")
        .agg(pl.col("ms").max())
        .sort("machine", "bin")
    )
    return [
        {"t": (row["bin"] + 0.5) * width_s, "value": max(0.05, row["ms"]),
         "colour": colours[row["machine"]], "name": row["machine"]}
        for row in binned.iter_rows(named=True)
        if row["machine"] in colours
    ]  # fmt: skip


def _told(
    left: Left,
    whitebox: pl.DataFrame,
    colours: Mapping[str, str],
    zero_s: float,
    end_s: float,
) -> list[tuple[str, Rows, bool]]:
    """The first white-box metrics that say anything in that time."""
    inside = whitebox.filter((pl.col("time_s") >= zero_s) & (pl.col("time_s") <= end_s))
    found: list[tuple[str, Rows, bool]] = []
    for shown in left.shown:
        mine = inside.filter(metric=shown["metric"]).sort("machine", "time_s")
        if mine.height == 0 or mine["value"].max() == 0.0:
            continue
        rows: Rows = [
            {"t": row["time_s"] - zero_s, "value": row["value"] / shown["unit"],
             "colour": colours[row["machine"]], "name": row["machine"]}
            for row in mine.iter_rows(named=True)
            if row["machine"] in colours
        ]  # fmt: skip
        found.append((shown["title"], rows, False))
    return found[:_PANELS_MAX]


def _panels(
    panels: Sequence[tuple[str, Rows, bool]], shades: Rows, length_s: float, size: Size
) -> Any:
    shown = [panel for panel in panels if panel[1]]
    return alt.vconcat(*(
        _panel(title, rows, shades, length_s, size, log=log, last=place == len(shown) - 1,
               first=place == 0)
        for place, (title, rows, log) in enumerate(shown)
    ), spacing=6)  # fmt: skip


def _panel(
    title: str,
    rows: Rows,
    shades: Rows,
    length_s: float,
    size: Size,
    *,
    log: bool,
    last: bool,
    first: bool,
) -> Any:
    values = [row["value"] for row in rows]
    scale = alt.Scale(domain=[0, max(values) * 1.1 or 1.0], nice=False)
    axis = alt.Axis(title=None, tickCount=4)
    if log:
        domain = [min(values) * 0.8, max(values) * 1.3]
        scale = alt.Scale(type="log", domain=domain, nice=False)
        axis = alt.Axis(title=None, values=log_ticks(domain), format="~g")
    when = alt.Axis(title="seconds" if last else None, labels=last, tickCount=8)
    span = alt.Scale(domain=[0, length_s], nice=False)
    x = alt.X("t:Q", scale=span, axis=when)
    shade = (
        alt.Chart(data(shades))
        .mark_rect(fill=palette.FAULT.light, opacity=0.13)
        .encode(x=alt.X("from:Q", scale=span, axis=when), x2="to:Q")
    )
    lines = (
        alt.Chart(data(rows))
        .mark_line(strokeWidth=1.3, clip=True)
        .encode(
            x=x,
            y=alt.Y("value:Q", scale=scale, axis=axis),
            stroke=alt.Stroke("colour:N", scale=None),
            detail="name:N",
        )
    )
    layers = [shade, lines]
    if first:
        layers.append(
            alt.Chart(data(shades))
            .mark_text(align="left", baseline="top", dx=2, dy=1, fill=palette.TEXT.light)
            .encode(x=alt.X("from:Q", scale=span, axis=when), y=alt.value(0), text="name:N")
        )
    height = (80 if size.small else 100) + 30 * first
    return alt.layer(*layers).properties(width=size.plot_width, height=height, title=title)
