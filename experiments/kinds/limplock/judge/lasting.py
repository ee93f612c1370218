"""The course of an operation that goes on under its fault until a server has died, and beyond it:
for result.json, and as a figure like the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from core.chart_style import data
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.windows import ROW, RunInputs, Window, group_by_part, later_bases
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

BIN_S = 2.0
_DASHES = ([1, 0], [6, 3], [1.5, 2.5], [9, 2, 2, 2])
_DIED = "triangle-up"
_HEIGHT = 170
_ROOM_S = 20.0  # least length of the paper's last stretch in the figure
Course = Mapping[str, Any]


def courses(
    inputs: RunInputs, windows: Sequence[Window], operations: pl.DataFrame
) -> list[dict[str, object]]:
    """Return for each repeat under a fault: operations done per second, in bins of BIN_S from the
    fault on, its rate without the fault, and the times at which servers died.

    Parameters: operations, as ASKED, with the rows' own operations.
    """
    repeat_courses = []
    row_operations = operations.filter(purpose=ROW, outcome="ok")
    for (arm, row, part), part_windows in group_by_part(windows).items():
        bases = later_bases(part_windows)
        for window in part_windows:
            if window.scenario == BASE:
                continue
            base = bases[window.repeat]
            base_per_s = None if base.cut else inputs.counts[row] / base.took_s
            repeat_courses.append({
                "arm": arm, "row": row, "part": part, "scenario": window.scenario,
                "repeat": window.repeat,
                "base_per_s": base_per_s,
                "bin_s": BIN_S,
                "done_per_s": _rates_per_s(row_operations, window),
                "died_s": window.died_by_part,
            })  # fmt: skip
    return repeat_courses


def _rates_per_s(operations: pl.DataFrame, window: Window) -> list[float]:
    ends = operations.filter(machine=window.asked)["end_s"].to_numpy() - window.start_s
    bins = max(1, int(window.length_s // BIN_S))
    counts, _ = np.histogram(ends, bins=bins, range=(0.0, bins * BIN_S))
    return [float(count) / BIN_S for count in counts]


def lasting_figures(result: Mapping[str, Any]) -> list[Figure]:
    groups: dict[tuple[str, str, str], list[Course]] = {}
    for course in result.get("courses") or ():
        groups.setdefault((course["row"], course["part"], course["scenario"]), []).append(course)
    return [_figure(group, result["arms"]) for group in groups.values()]


def _figure(group: Sequence[Course], arms: Sequence[str]) -> Figure:
    row, part, scenario = group[0]["row"], group[0]["part"], group[0]["scenario"]
    paper = rows()[row].paper
    published = [] if paper is None else [stretch.model_dump() for stretch in paper.course]
    places = "" if paper is None else ", ".join(paper.places)
    rates = "; ".join(f"{stretch['rate_per_s']:g}/s {stretch['what']}" for stretch in published)
    caption = (
        f"{row}: operations done per second since the fault, means of {BIN_S:g} s, a line for each "
        "repeat. A triangle: a server printed that it had run out of memory, told up to 2 s late; "
        "its repeat ends a while after."
    )
    if published:
        caption += (
            f" Grey: the paper's, as its text has it ({places}): {rates}. Dotted: it does not say "
            "since when. Its follower's card had 0.1 Mbit/s."
        )
    legend = [*marks.arm_keys(arms, "line", {course["arm"] for course in group})]
    legend += [Key(_DIED, palette.MARKER.light, "out of memory")]
    legend += [Key("line", palette.INTERFERENCE.light, "the paper")] if published else []
    return drawn(
        f"lasting-{row}-{part}-{scenario}".lower().replace(" ", "-"),
        f"{row}, {part}, {label(scenario)}: done over time", caption, tuple(legend),
        lambda size: _graphs(group, arms, published, size),
    )  # fmt: skip


def _graphs(
    group: Sequence[Course], arms: Sequence[str], published: Sequence[Course], size: Size
) -> Any:
    end_s = max(len(course["done_per_s"]) * course["bin_s"] for course in group)
    end_s = max(
        [end_s, *(stretch["from_s"] + _ROOM_S for stretch in published if stretch["from_s"])]
    )
    highest = max(max(course["done_per_s"]) for course in group)
    highest = max([highest, *(stretch["rate_per_s"] for stretch in published)]) * 1.1
    drawn_arms = [arm for arm in arms if any(course["arm"] == arm for course in group)]
    return alt.vconcat(*(
        _graph([course for course in group if course["arm"] == arm],
               palette.arm_colour(arms, arm).light, published, end_s, highest, size)
        for arm in drawn_arms
    ), spacing=10)  # fmt: skip


def _graph(
    group: Sequence[Course], colour: str, published: Sequence[Course], end_s: float, highest: float,
    size: Size,
) -> Any:  # fmt: skip
    x = marks.linear(alt.X, "t", "seconds since the fault", [0, end_s], tickCount=8)
    y = marks.linear(alt.Y, "value", "done per second", [0, highest], tickCount=5)
    layers = [
        _published_line(stretch, end_s, x, y)
        for stretch in published
        if (stretch["from_s"] or 0.0) < end_s
    ]
    for index, course in enumerate(group):
        width_s, rates = course["bin_s"], course["done_per_s"]
        line = [{"t": (k + 0.5) * width_s, "value": rate} for k, rate in enumerate(rates)]
        dash = _DASHES[index % len(_DASHES)]
        layers.append(marks.line(line, x, y, stroke=colour, strokeWidth=1.6, strokeDash=dash))
        died = [
            {"t": at_s, "value": rates[min(int(at_s / width_s), len(rates) - 1)]}
            for at_s in course["died_s"].values()
        ]
        if died:
            layers.append(
                alt.Chart(data(died))
                .mark_point(shape=_DIED, filled=True, size=90, opacity=1, fill=palette.MARKER.light)
                .encode(x=x, y=y)
            )
    return alt.layer(*layers).properties(
        width=size.plot_width, height=_HEIGHT, title=str(group[0]["arm"])
    )


def _published_line(stretch: Course, end_s: float, x: Any, y: Any) -> Any:
    until_s = min(stretch["until_s"] or end_s, end_s)
    line = [
        {"t": at_s, "value": stretch["rate_per_s"]} for at_s in (stretch["from_s"] or 0.0, until_s)
    ]
    style = {"stroke": palette.INTERFERENCE.light, "strokeWidth": 3, "opacity": 0.6}
    return marks.line(
        line, x, y, strokeDash=[1.5, 3] if stretch["from_s"] is None else [1, 0], **style
    )
