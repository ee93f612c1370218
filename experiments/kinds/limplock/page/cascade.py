"""Nodes in limplock over time (Limplock Fig. 2b): how many were slow, so long after the fault."""

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
LineStyle = tuple[str, str]  # colour and kind of line of an arm: arms may lie on each other
_ROOM = 1.1
_BETWEEN_PX = 44
_TICKS_MAX = 8


def cascade_figures(result: Mapping[str, Any]) -> list[Figure]:
    """Of each row and part with a node that is judged slow; a graph a scenario, a line an arm."""
    arms = result["arms"]
    looks = {
        arm: (palette.arm_colour(arms, arm).light, list(DASHES)[index % len(DASHES)])
        for index, arm in enumerate(arms)
    }
    by_row = groupby(sorted(result["scenarios"], key=_row), key=_row)
    mine = [list(some) for _, some in by_row]
    return [_figure(some, looks) for some in mine if any(map(slow, some))]


def slow(one: Scenario) -> list[Mapping[str, Any]]:
    """When each node that is judged slow became so; of one that no repeat dates nothing."""
    nodes = (node for node in one["nodes"] if node["verdict"] == "yes")
    return [node["since"] for node in nodes if node["since"]]


def steps(times_s: Iterable[float], end_s: float) -> list[tuple[float, int]]:
    """Return the number that have come by then, from 0 on to the end: where it changes."""
    ordered = sorted(times_s)
    return [(0.0, 0), *((at_s, k) for k, at_s in enumerate(ordered, start=1)),
            (end_s, len(ordered))]  # fmt: skip


def _row(one: Scenario) -> tuple[str, str]:
    return one["row"], one["part"]


def _figure(some: Sequence[Scenario], looks: Mapping[str, LineStyle]) -> Figure:
    row, part = _row(some[0])
    shown = {one["scenario"] for one in some if slow(one)}
    graphs = [
        [one for one in some if one["scenario"] == scenario]
        for scenario in dict.fromkeys(one["scenario"] for one in some)
        if scenario in shown
    ]
    arms = [arm for arm in looks if any(one["arm"] == arm for one in some)]
    caption = (
        "Nodes that are judged slow in what needs nothing that limps, by when each became so "
        "(median of the repeats); shaded: between the earliest and the latest of all repeats. The "
        "axis ends at the number of nodes that were probed in this way."
    )
    legend = tuple(Key(looks[arm][1], looks[arm][0], arm) for arm in arms)
    return drawn(
        f"cascade-{row}-{part}".lower(), f"{row}, {part}: nodes in limplock", caption, legend,
        lambda size: _graphs(graphs, looks, size),
    )  # fmt: skip


def _graphs(
    graphs: Sequence[Sequence[Scenario]], looks: Mapping[str, LineStyle], size: Size
) -> Any:
    columns = 1 if size.small else min(4, len(graphs))
    width = (size.plot_width - _BETWEEN_PX * (columns - 1)) / columns
    return alt.concat(*(
        _graph(some, looks, width, first=index % columns == 0)
        for index, some in enumerate(graphs)
    ), columns=columns)  # fmt: skip


def _graph(
    some: Sequence[Scenario], looks: Mapping[str, LineStyle], width: float, *, first: bool
) -> Any:
    nodes = max(len(one["nodes"]) for one in some)
    ends = [*(since["high_s"] for one in some for since in slow(one)),
            *(took_s for one in some for took_s in one["took_all_s"])]  # fmt: skip
    end_s = max(ends) * _ROOM
    x = marks.linear(alt.X, "t", "seconds since the fault", [0, end_s], tickCount=5)
    title, ticks = "nodes in limplock" if first else None, min(nodes, _TICKS_MAX)
    y = marks.linear(alt.Y, "value", title, [0, nodes], tickCount=ticks, tickMinStep=1, format="d")
    layers = []
    for one in some:
        (colour, kind), since = looks[one["arm"]], slow(one)
        for low, high in _bounds(since, end_s):
            band = [{"t": low[0], "to": high[0], "value": low[1] - 1, "top": low[1]}]
            layers.append(
                marks.shade(band, colour, 0.22, x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("top:Q"))
            )
        counts = steps([one["seconds"] for one in since], end_s)
        line = [{"t": at_s, "value": count} for at_s, count in counts]
        look = {"strokeWidth": 2, "stroke": colour, "strokeDash": DASHES[kind]}
        layers.append(marks.line(line, x, y, interpolate="step-after", **look))
    name = f"{some[0]['row']}, {some[0]['part']}, {label(some[0]['scenario'])}"
    return alt.layer(*layers).properties(width=width, height=170, title=name)


def _bounds(
    since: Sequence[Mapping[str, Any]], end_s: float
) -> list[tuple[tuple[float, int], tuple[float, int]]]:
    """Between which times the number reached each count: earliest and latest, in order each."""
    low = steps([one["low_s"] for one in since], end_s)[1:-1]
    high = steps([one["high_s"] for one in since], end_s)[1:-1]
    return list(zip(low, high, strict=True))
