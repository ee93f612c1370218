"""Nodes in limplock over time (Limplock Fig. 2b): number of slow nodes after the fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import altair as alt

from experiments.kinds.limplock.page.figures import DASHES
from experiments.kinds.limplock.scenarios import label
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

Scenario = Mapping[str, Any]  # of a result
LineStyle = tuple[str, str]  # colour and kind of an arm's line; lines of arms may overlap
_ROOM = 1.1
_BETWEEN_PX = 44
_TICKS_MAX = 8


def cascade_figures(result: Mapping[str, Any]) -> list[Figure]:
    """Return a figure for each row and part with a slow node: a graph for each scenario, a line for
    each arm."""
    arms = result["arms"]
    styles = {
        arm: (palette.arm_colour(arms, arm).light, list(DASHES)[index % len(DASHES)])
        for index, arm in enumerate(arms)
    }
    by_row = groupby(sorted(result["scenarios"], key=_row_key), key=_row_key)
    groups = [list(group) for _, group in by_row]
    return [_figure(group, styles) for group in groups if any(map(slow_since, group))]


def slow_since(scenario: Scenario) -> list[Mapping[str, Any]]:
    nodes = (node for node in scenario["nodes"] if node["verdict"] == "yes")
    return [node["since"] for node in nodes if node["since"]]


def steps(times_s: Iterable[float], end_s: float) -> list[tuple[float, int]]:
    """Return the number of times that have passed, from second 0 to the end, at each change."""
    ordered = sorted(times_s)
    return [(0.0, 0), *((at_s, k) for k, at_s in enumerate(ordered, start=1)),
            (end_s, len(ordered))]  # fmt: skip


def _row_key(scenario: Scenario) -> tuple[str, str]:
    return scenario["row"], scenario["part"]


def _figure(scenarios: Sequence[Scenario], styles: Mapping[str, LineStyle]) -> Figure:
    row, part = _row_key(scenarios[0])
    slow_names = {scenario["scenario"] for scenario in scenarios if slow_since(scenario)}
    graphs = [
        [scenario for scenario in scenarios if scenario["scenario"] == name]
        for name in dict.fromkeys(scenario["scenario"] for scenario in scenarios)
        if name in slow_names
    ]
    arms = [arm for arm in styles if any(scenario["arm"] == arm for scenario in scenarios)]
    caption = (
        "Nodes that are judged slow in what needs nothing that limps, by when each became so "
        "(median of the repeats); shaded: between the earliest and the latest of all repeats. The "
        "axis ends at the number of nodes that were probed in this way."
    )
    legend = tuple(Key(styles[arm][1], styles[arm][0], arm) for arm in arms)
    return drawn(
        f"cascade-{row}-{part}".lower(), f"{row}, {part}: nodes in limplock", caption, legend,
        lambda size: _graphs(graphs, styles, size),
    )  # fmt: skip


def _graphs(
    graphs: Sequence[Sequence[Scenario]], styles: Mapping[str, LineStyle], size: Size
) -> Any:
    columns = 1 if size.small else min(4, len(graphs))
    width = (size.plot_width - _BETWEEN_PX * (columns - 1)) / columns
    return alt.concat(*(
        _graph(group, styles, width, first=index % columns == 0)
        for index, group in enumerate(graphs)
    ), columns=columns)  # fmt: skip


def _graph(
    scenarios: Sequence[Scenario], styles: Mapping[str, LineStyle], width: float, *, first: bool
) -> Any:
    nodes = max(len(scenario["nodes"]) for scenario in scenarios)
    ends = [*(since["high_s"] for scenario in scenarios for since in slow_since(scenario)),
            *(took_s for scenario in scenarios for took_s in scenario["took_all_s"])]  # fmt: skip
    end_s = max(ends) * _ROOM
    x = marks.linear(alt.X, "t", "seconds since the fault", [0, end_s], tickCount=5)
    title, ticks = "nodes in limplock" if first else None, min(nodes, _TICKS_MAX)
    y = marks.linear(alt.Y, "value", title, [0, nodes], tickCount=ticks, tickMinStep=1, format="d")
    layers = []
    for scenario in scenarios:
        (colour, kind), since = styles[scenario["arm"]], slow_since(scenario)
        for low, high in _bounds(since, end_s):
            band = [{"t": low[0], "to": high[0], "value": low[1] - 1, "top": low[1]}]
            layers.append(
                marks.shade(band, colour, 0.22, x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("top:Q"))
            )
        counts = steps([moment["seconds"] for moment in since], end_s)
        line = [{"t": at_s, "value": count} for at_s, count in counts]
        style = {"strokeWidth": 2, "stroke": colour, "strokeDash": DASHES[kind]}
        layers.append(marks.line(line, x, y, interpolate="step-after", **style))
    name = f"{scenarios[0]['row']}, {scenarios[0]['part']}, {label(scenarios[0]['scenario'])}"
    return alt.layer(*layers).properties(width=width, height=170, title=name)


def _bounds(
    since: Sequence[Mapping[str, Any]], end_s: float
) -> list[tuple[tuple[float, int], tuple[float, int]]]:
    """Return the earliest and the latest time at which the number reached each count."""
    low = steps([moment["low_s"] for moment in since], end_s)[1:-1]
    high = steps([moment["high_s"] for moment in since], end_s)[1:-1]
    return list(zip(low, high, strict=True))
