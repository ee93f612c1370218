"""Slowdowns by row (Limplock Fig. 1), and the course of a repeat (Fig. 4)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import polars as pl

from core.chart_style import Rows, data
from experiments.kinds.limplock.judge.resources import REACHED, Metrics
from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.windows import PROBE, ROW, RunInputs, Window, group_by_part
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.text import number, percent

_BINS = 160
_LETTER_PX = 7
_PANELS_MAX = 3
_TOP, _BOTTOM = 2000.0, 0.3  # of slowdowns: values beyond are drawn at the edge
_LIMIT_ROOM = 4.0  # a limit further above the largest value is named, not drawn
DASHES: Mapping[str, list[float]] = {"line": [1, 0], "dashed": [6, 3], "dotted": [1.5, 2.5]}
"""Dashes by the legend's kind of line."""


@dataclass(frozen=True)
class LineStyle:
    """The style of a machine's line, as in the legend."""

    colour: str
    kind: str


_STYLES = tuple(LineStyle(colour.light, kind) for kind in DASHES for colour in palette.ARMS)


@dataclass(frozen=True)
class _Panel:
    """A graph over time; limits by machine, if its metric has one."""

    title: str
    rows: Rows
    log: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return any(
            row["value"] >= REACHED * self.limits.get(row["name"], math.inf) for row in self.rows
        )


def slowdown_figure(result: Mapping[str, Any]) -> Figure:
    """Return each scenario's slowdown with its interval, on a log axis: a graph for each row, a
    colour for each arm.
    """
    scenarios, arms = result["scenarios"], result["arms"]
    known = [scenario for scenario in scenarios if scenario["slowdown"]]
    order = list(dict.fromkeys(label(scenario["scenario"]) for scenario in scenarios))
    colours = {arm: palette.arm_colour(arms, arm).light for arm in arms}
    caption = (
        "Time of the row's operation over its base, median of the ratios, with an interval of "
        f"{percent(result['rule']['confidence'], 2)} at each end. A triangle is at least so much: "
        f"it was cut short. Dashed: {result['rule']['factor']:g} ×, above which it is limplock."
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
    names = list(dict.fromkeys((scenario["row"], scenario["part"]) for scenario in known))
    columns = 2 if size.small else min(5, len(names))
    highest = max(
        scenario["slowdown"]["high"] or scenario["slowdown"]["factor"] for scenario in known
    )
    lowest = min(scenario["slowdown"]["low"] for scenario in known)
    domain = [max(_BOTTOM, min(0.7, lowest * 0.9)), min(_TOP, max(10.0, highest * 1.5))]
    width = (size.plot_width - 44 * columns) / columns
    graphs = [
        _row_graph(
            [scenario for scenario in known if (scenario["row"], scenario["part"]) == name],
            f"{name[0]}, {name[1]}", order, colours, limit, domain, width,
            first=index % columns == 0,
        )
        for index, name in enumerate(names)
    ]  # fmt: skip
    return alt.concat(*graphs, columns=columns)


def _row_graph(
    scenarios: Sequence[Mapping[str, Any]],
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
            "scenario": label(scenario["scenario"]),
            "factor": scenario["slowdown"]["factor"],
            "low": scenario["slowdown"]["low"],
            "high": scenario["slowdown"]["high"] or domain[1],
            "colour": colours[scenario["arm"]],
            "shape": "triangle-up" if scenario["slowdown"]["at_least"] else "circle",
            "offset": arms.index(scenario["arm"]),
        }
        for scenario in scenarios
    ]
    title_y = "slowdown (log scale)" if first else None
    y, low = (marks.logarithmic(alt.Y, field, title_y, domain) for field in ("factor", "low"))
    x = alt.X("scenario:N", sort=list(order), axis=alt.Axis(title=None, labelAngle=-45))
    offset = alt.XOffset("offset:N")
    chart = alt.Chart(data(rows))
    bars = chart.mark_rule(strokeWidth=1.6)
    bars = bars.encode(x=x, xOffset=offset, y=low, y2=alt.Y2("high:Q"), stroke=marks.STROKE)
    points = marks.points(rows, x, y, 60, opacity=1).encode(xOffset=offset)
    return alt.layer(marks.rule([{"factor": limit}], y=y), bars, points).properties(
        width=width, height=190, title=title
    )


def course_figures(
    inputs: RunInputs, windows: Sequence[Window], operations: pl.DataFrame, whitebox: pl.DataFrame
) -> list[Figure]:
    """Return the last repeat with a scenario of each row and arm."""
    figures = []
    for part_windows in group_by_part(windows).values():
        repeats = (window.repeat for window in part_windows if window.scenario != BASE)
        last = max(repeats, default=None)
        if last is not None:
            course = [window for window in part_windows if window.repeat == last]
            course.sort(key=lambda window: window.start_s)
            figures.append(_course_figure(inputs, course, operations, whitebox))
    return figures


def _course_figure(
    inputs: RunInputs, course: Sequence[Window], operations: pl.DataFrame, whitebox: pl.DataFrame
) -> Figure:
    first = course[0]
    zero_s, end_s = first.start_s, course[-1].end_s
    inside = operations.filter((pl.col("end_s") >= zero_s) & (pl.col("end_s") <= end_s))
    metrics = whitebox.filter((pl.col("time_s") >= zero_s) & (pl.col("time_s") <= end_s))
    machines = _names(course, inside, metrics)
    styles = dict(zip(machines, _STYLES, strict=False))
    medians = _probe_medians(inside, styles, zero_s, end_s)
    panels = [
        _Panel("operations per second", _throughput(inside, zero_s, end_s)),
        _Panel("median probe, ms (log scale)", medians, log=True),
        *_metric_panels(inputs, metrics, styles, zero_s),
    ]
    title = f"{first.row}, {first.part}, {first.arm}: repeat {first.repeat + 1} over time"
    limped = ", ".join(
        f"{label(window.scenario)} {window.limping} ({window.labels[window.limping]})"
        for window in course if window.scenario != BASE
    )  # fmt: skip
    omission = (
        f" Not drawn: {', '.join(machines[len(_STYLES) :])}." if machines[len(_STYLES) :] else ""
    )
    caption = (
        f"{title}. Shaded: the fault's windows, in this order: {limped}. The first stretch is the "
        "base. Top: the row's operation, done per second; between its runs nobody asks for it."
        f"{omission}"
    )
    limping = {window.limping for window in course if window.scenario != BASE}
    drawn_names = {row["name"] for panel in panels for row in panel.rows}
    legend = tuple(
        Key(style.kind, style.colour, f"{name} ({_node_words(first, name, limping)})")
        for name, style in styles.items() if name in drawn_names
    )  # fmt: skip
    shades: Rows = [
        {"from": window.start_s - zero_s, "to": window.end_s - zero_s,
         "name": label(window.scenario)}
        for window in course if window.scenario != BASE
    ]  # fmt: skip
    identity = f"course-{first.arm}-{first.row}-{first.part}".lower()
    return drawn(
        identity, title, caption, legend,
        lambda size: _panels(panels, shades, end_s - zero_s, size),
        "" if panels[0].rows else "The operation never succeeded.",
    )  # fmt: skip


def _names(course: Sequence[Window], operations: pl.DataFrame, metrics: pl.DataFrame) -> list[str]:
    """Return the machines with data to draw: those that limp, those that get the operation, then
    the others by their parts."""
    labels = {name: part for window in reversed(course) for name, part in window.labels.items()}
    drawn_machines = {*operations.filter(purpose=PROBE)["machine"], *metrics["machine"]}
    first = [window.limping for window in course if window.scenario != BASE]
    first += [window.asked for window in course]
    others = sorted(labels, key=lambda name: (labels[name], name))
    return [name for name in dict.fromkeys([*first, *others]) if name in drawn_machines]


def _node_words(first: Window, name: str, limping: Collection[str]) -> str:
    at_first = f"at first {first.labels[name]}" if name in first.labels else ""
    return ", ".join(filter(None, [at_first, "limps" * (name in limping)])) or "of no part"


def _width_s(zero_s: float, end_s: float) -> float:
    return max(0.5, (end_s - zero_s) / _BINS)


def _throughput(operations: pl.DataFrame, zero_s: float, end_s: float) -> Rows:
    width_s = _width_s(zero_s, end_s)
    good = operations.filter(purpose=ROW, outcome="ok")
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
         "colour": palette.MARKER.light, "kind": "line", "name": "row"}
        for k in bins
    ]  # fmt: skip


def _probe_medians(
    operations: pl.DataFrame, styles: Mapping[str, LineStyle], zero_s: float, end_s: float
) -> Rows:
    """Return for each machine and bin of time the largest of its operations' medians."""
    width_s = _width_s(zero_s, end_s)
    binned = (
        operations.filter(purpose=PROBE)
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
         **_style_fields(row["machine"], styles)}
        for row in binned.iter_rows(named=True)
        if row["machine"] in styles
    ]  # fmt: skip


def _style_fields(name: str, styles: Mapping[str, LineStyle]) -> dict[str, object]:
    return {"colour": styles[name].colour, "kind": styles[name].kind, "name": name}


def _metric_panels(
    inputs: RunInputs, whitebox: pl.DataFrame, styles: Mapping[str, LineStyle], zero_s: float
) -> list[_Panel]:
    """Return panels of metrics with values: those that reached a limit, then the first ones."""
    panels = []
    series = Metrics(whitebox)
    for page_metric in inputs.shown:
        table = whitebox.filter(metric=page_metric["metric"]).sort("machine", "time_s")
        rows: Rows = [
            {"t": row["time_s"] - zero_s, "value": row["value"] / page_metric["unit"],
             **_style_fields(row["machine"], styles)}
            for row in table.iter_rows(named=True)
            if row["machine"] in styles
        ]  # fmt: skip
        if any(row["value"] for row in rows):
            limits = {
                name: series.limit(name, page_metric) for name in {row["name"] for row in rows}
            }
            known = {
                name: at / page_metric["unit"] for name, at in limits.items() if at is not None
            }
            panels.append(_Panel(page_metric["title"], rows, limits=known))
    return sorted(panels, key=lambda panel: not panel.is_full)[:_PANELS_MAX]


def _panels(panels: Sequence[_Panel], shades: Rows, length_s: float, size: Size) -> Any:
    drawn_panels = [panel for panel in panels if panel.rows]
    return alt.vconcat(*(
        _panel(panel, shades, length_s, size, last=index == len(drawn_panels) - 1, first=index == 0)
        for index, panel in enumerate(drawn_panels)
    ), spacing=6)  # fmt: skip


def _panel(
    panel: _Panel, shades: Rows, length_s: float, size: Size, *, last: bool, first: bool
) -> Any:
    values = [row["value"] for row in panel.rows]
    limits = sorted({at for at in panel.limits.values() if at <= _LIMIT_ROOM * max(values)})
    beyond = sorted({*panel.limits.values()} - {*limits})
    title = panel.title + ("; dashed: its limit" if limits else "")
    title += f"; limit beyond: {', '.join(map(number, beyond))}" if beyond else ""
    x, start = (
        marks.linear(alt.X, field, "seconds" if last else None, [0, length_s], labels=last,
                     tickCount=8)
        for field in ("t", "from")
    )  # fmt: skip
    top = max([*values, *limits]) * 1.1 or 1.0
    y = marks.linear(alt.Y, "value", None, [0, top], tickCount=4)
    if panel.log:
        y = marks.logarithmic(alt.Y, "value", None, [min(values) * 0.8, max(values) * 1.3])
    layers = [marks.shade(shades, palette.FAULT.light, 0.13, x=start, x2=alt.X2("to:Q")),
              *_lines(panel.rows, x, y)]  # fmt: skip
    if limits:
        layers.append(marks.rule([{"value": at} for at in limits], y=y))
    if first:
        names = alt.Chart(data(_separate_names(shades, size.plot_width / length_s))).mark_text(
            align="left", baseline="top", dx=2, dy=1, fill=palette.TEXT.light
        )
        layers.append(names.encode(x=start, y=alt.value(0), text=alt.Text("name:N")))
    height = (80 if size.small else 100) + 30 * first
    return alt.layer(*layers).properties(width=size.plot_width, height=height, title=title)


def _separate_names(shades: Rows, px_per_s: float) -> Rows:
    """Return the shades whose names do not overlap the name before."""
    separate: list[Mapping[str, Any]] = []
    end_px = 0.0
    for shade in shades:
        if (start_px := shade["from"] * px_per_s) >= end_px:
            separate.append(shade)
            end_px = start_px + _LETTER_PX * (len(shade["name"]) + 1)
    return separate


def _lines(rows: Rows, x: Any, y: Any) -> list[Any]:
    kinds = [kind for kind in DASHES if any(row["kind"] == kind for row in rows)]
    return [
        marks.line(
            [row for row in rows if row["kind"] == kind],
            x,
            y,
            strokeWidth=1.3,
            strokeDash=DASHES[kind],
            clip=True,
        ).encode(stroke=marks.STROKE, detail=alt.Detail("name:N"))
        for kind in kinds
    ]
