"""The course of an operation that goes on under its fault, until a server has died and
beyond: for result.json, and as the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from core.chart_style import data
from experiments.kinds.limplock.row import rows
from experiments.kinds.limplock.scenarios import BASE, label
from experiments.kinds.limplock.windows import ROW, RunInputs, Window, by_part, later_bases
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

BIN_S = 2.0
_DASHES = ([1, 0], [6, 3], [1.5, 2.5], [9, 2, 2, 2])
_DIED = "triangle-up"
_HEIGHT = 170
_ROOM_S = 20.0  # of the paper's last stretch at least
Course = Mapping[str, Any]


def courses(
    left: RunInputs, windows: Sequence[Window], asked: pl.DataFrame
) -> list[dict[str, object]]:
    """Of each repeat under a fault: operations done per second, in bins of BIN_S from the fault on,
    what it did without the fault, and when servers died.

    Parameters: asked, as ASKED, the rows' own operations among it.
    """
    found = []
    mine = asked.filter(purpose=ROW, outcome="ok")
    for (arm, row, part), some in by_part(windows).items():
        bases = later_bases(some)
        for window in some:
            if window.scenario == BASE:
                continue
            base = bases[window.repeat]
            base_per_s = None if base.cut else left.counts[row] / base.took_s
            found.append({
                "arm": arm, "row": row, "part": part, "scenario": window.scenario,
                "repeat": window.repeat,
                "base_per_s": base_per_s,
                "bin_s": BIN_S,
                "done_per_s": _per_s(mine, window),
                "died_s": {
                    window.labels.get(name, name): at for name, at in window.died_s.items()
                },
            })  # fmt: skip
    return found


def _per_s(asked: pl.DataFrame, window: Window) -> list[float]:
    """In whole bins of the window."""
    ends = asked.filter(machine=window.asked)["end_s"].to_numpy() - window.start_s
    bins = max(1, int(window.length_s // BIN_S))
    counts, _ = np.histogram(ends, bins=bins, range=(0.0, bins * BIN_S))
    return [float(count) / BIN_S for count in counts]


def lasting_figures(result: Mapping[str, Any]) -> list[Figure]:
    """Return a figure for each row and scenario whose operation went on."""
    found: dict[tuple[str, str, str], list[Course]] = {}
    for one in result.get("courses") or ():
        found.setdefault((one["row"], one["part"], one["scenario"]), []).append(one)
    return [_figure(some, result["arms"]) for some in found.values()]


def _figure(some: Sequence[Course], arms: Sequence[str]) -> Figure:
    row, part, scenario = some[0]["row"], some[0]["part"], some[0]["scenario"]
    paper = rows()[row].paper
    published = [] if paper is None else [one.model_dump() for one in paper.course]
    places = "" if paper is None else ", ".join(paper.places)
    said = "; ".join(f"{one['rate_per_s']:g}/s {one['what']}" for one in published)
    caption = (
        f"{row}: operations done per second since the fault, means of {BIN_S:g} s, a line for each "
        "repeat. A triangle: a server printed that it had run out of memory, told up to 2 s late; "
        "its repeat ends a while after."
    )
    if published:
        caption += (
            f" Grey: the paper's, as its text has it ({places}): {said}. Dotted: it does not say "
            "since when. Its follower's card had 0.1 Mbit/s."
        )
    legend = [*marks.arm_keys(arms, "line", {one["arm"] for one in some})]
    legend += [Key(_DIED, palette.MARKER.light, "out of memory")]
    legend += [Key("line", palette.INTERFERENCE.light, "the paper")] if published else []
    return drawn(
        f"lasting-{row}-{part}-{scenario}".lower().replace(" ", "-"),
        f"{row}, {part}, {label(scenario)}: done over time", caption, tuple(legend),
        lambda size: _graphs(some, arms, published, size),
    )  # fmt: skip


def _graphs(
    some: Sequence[Course], arms: Sequence[str], published: Sequence[Course], size: Size
) -> Any:
    end_s = max(len(one["done_per_s"]) * one["bin_s"] for one in some)
    end_s = max([end_s, *(one["from_s"] + _ROOM_S for one in published if one["from_s"])])
    most = max(max(one["done_per_s"]) for one in some)
    most = max([most, *(one["rate_per_s"] for one in published)]) * 1.1
    shown = [arm for arm in arms if any(one["arm"] == arm for one in some)]
    return alt.vconcat(*(
        _graph([one for one in some if one["arm"] == arm],
               palette.arm_colour(arms, arm).light, published, end_s, most, size)
        for arm in shown
    ), spacing=10)  # fmt: skip


def _graph(
    some: Sequence[Course], colour: str, published: Sequence[Course], end_s: float, most: float,
    size: Size,
) -> Any:  # fmt: skip
    x = marks.linear(alt.X, "t", "seconds since the fault", [0, end_s], tickCount=8)
    y = marks.linear(alt.Y, "value", "done per second", [0, most], tickCount=5)
    layers = [_published(one, end_s, x, y) for one in published if (one["from_s"] or 0.0) < end_s]
    for index, one in enumerate(some):
        width_s, rates = one["bin_s"], one["done_per_s"]
        line = [{"t": (k + 0.5) * width_s, "value": rate} for k, rate in enumerate(rates)]
        dash = _DASHES[index % len(_DASHES)]
        layers.append(marks.line(line, x, y, stroke=colour, strokeWidth=1.6, strokeDash=dash))
        died = [
            {"t": at_s, "value": rates[min(int(at_s / width_s), len(rates) - 1)]}
            for at_s in one["died_s"].values()
        ]
        if died:
            layers.append(
                alt.Chart(data(died))
                .mark_point(shape=_DIED, filled=True, size=90, opacity=1, fill=palette.MARKER.light)
                .encode(x=x, y=y)
            )
    return alt.layer(*layers).properties(
        width=size.plot_width, height=_HEIGHT, title=str(some[0]["arm"])
    )


def _published(one: Course, end_s: float, x: Any, y: Any) -> Any:
    until_s = min(one["until_s"] or end_s, end_s)
    line = [{"t": at_s, "value": one["rate_per_s"]} for at_s in (one["from_s"] or 0.0, until_s)]
    look = {"stroke": palette.INTERFERENCE.light, "strokeWidth": 3, "opacity": 0.6}
    return marks.line(line, x, y, strokeDash=[1.5, 3] if one["from_s"] is None else [1, 0], **look)
