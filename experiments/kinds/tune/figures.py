"""The figures of a tune: the trajectory as in sPARE Fig. 7, and every feasible r side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from core.chart_style import Row, Rows, data
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

# Colour and shape by the outcome of a step; both differ, so one of them is enough to read it.
_LOOKS = {
    "taken": (palette.ARMS[0].light, "circle"),
    "not lower": (palette.ARMS[1].light, "triangle-up"),
    "insufficient": (palette.INTERFERENCE.light, "square"),
}


def trajectory_figure(tuning: Mapping[str, Any]) -> Figure:
    """Chart the target of every tried r in order, with intervals; a line joins accepted ones."""
    rows = _trajectory_rows(tuning)
    target = tuning["asked"]["target"]
    title = f"{target} latency against iteration"
    if not rows:
        return Figure("trajectory-figure", title, "", (), {}, "No r was measured to its end.")
    caption = (
        f"Each point is the {target} of one r, with its 95 % interval, in the windows of its own "
        "comparison. What decides is the comparison with the current r in windows that alternate, "
        "not the heights of points measured minutes apart. The line joins the r that were taken."
    )
    outcomes = {row["what"] for row in rows}
    legend = tuple(Key(shape, colour, outcome) for outcome, (colour, shape) in _LOOKS.items()
                   if outcome in outcomes)  # fmt: skip
    return drawn(
        "trajectory-figure", title, caption, legend, lambda size: _points(rows, size, target)
    )


def exhaustive_figure(tuning: Mapping[str, Any]) -> Figure:
    """Chart every feasible r over the same rounds; the chosen one is marked."""
    exhaustive, target = tuning["exhaustive"], tuning["asked"]["target"]
    rows = [
        {
            **_interval(point),
            "label": _label(point["replicas"]),
            "colour": _LOOKS[_mark(point, tuning)][0],
        }
        for point in sorted(exhaustive["points"], key=lambda point: point["value_ms"])
    ]  # fmt: skip
    caption = (
        f"{target} with its 95 % interval over {exhaustive['rounds']} rounds; within a round all "
        "r meet the same arrivals, pages and neighbours."
    )
    legend = (
        Key("circle", _LOOKS["taken"][0], "chosen by the search"),
        Key("circle", _LOOKS["insufficient"][0], "other feasible r"),
    )
    title = f"{target} latency of every feasible r"
    return drawn(
        "exhaustive-figure", title, caption, legend, lambda size: _dots(rows, size, target)
    )


def _mark(point: Mapping[str, Any], tuning: Mapping[str, Any]) -> str:
    return "taken" if point["replicas"] == tuning["chosen"] else "insufficient"


def _interval(point: Mapping[str, Any]) -> dict[str, float]:
    return {"ms": point["value_ms"], "low": point["low_ms"], "high": point["high_ms"]}


def _label(replicas: Sequence[int]) -> str:
    return f"({', '.join(map(str, replicas))})"


def _trajectory_rows(tuning: Mapping[str, Any]) -> Rows:
    start = tuning["start"]
    if start is None:
        return []
    rows = [_row(1, start, "taken")]
    for step in tuning["steps"]:
        outcome = "taken" if step["accepted"] else "insufficient"
        if step["verdict"] in ("worse", "not steady"):
            outcome = "not lower"
        rows.append(_row(step["iteration"], step["candidate"], outcome))
    return rows


def _row(iteration: int, point: Mapping[str, Any], outcome: str) -> Row:
    colour, shape = _LOOKS[outcome]
    label = _label(point["replicas"])
    return {
        **_interval(point),
        "iteration": iteration,
        "label": label,
        "what": outcome,
        "colour": colour,
        "shape": shape,
    }


def _points(rows: Rows, size: Size, target: str) -> Any:
    last = max(row["iteration"] for row in rows)
    x = marks.linear(alt.X, "iteration", "iteration", [0.6, last + 0.4],
                     values=list(range(1, last + 1)), format="d")  # fmt: skip
    top = max(row["high"] for row in rows) * 1.08
    y, low = (marks.linear(alt.Y, field, f"{target} latency, ms", [0, top], tickCount=6)
              for field in ("ms", "low"))  # fmt: skip
    base = alt.Chart(data(rows)).encode(x=x)
    accepted = [row for row in rows if row["what"] == "taken"]
    way = marks.line(accepted, x, y, stroke=_LOOKS["taken"][0], strokeWidth=1.6, strokeDash=[5, 3])
    bars = base.mark_rule(strokeWidth=2).encode(y=low, y2=alt.Y2("high:Q"), stroke=marks.STROKE)
    points = marks.points(rows, x, y, 120, opacity=1, stroke=palette.PAPER.light, strokeWidth=1)
    labels = base.mark_text(
        align="left", dx=9, dy=-2, fontSize=13, fontWeight=600, fill=palette.TEXT.light
    ).encode(y=y, text=alt.Text("label:N"))
    return alt.layer(way, bars, points, labels).properties(
        width=size.plot_width, height=260 if size.small else 320
    )


def _dots(rows: Rows, size: Size, target: str) -> Any:
    domain = [0, max(row["high"] for row in rows) * 1.05]
    x, low = (marks.linear(alt.X, field, f"{target} latency, ms", domain,
                           tickCount=5 if size.small else 8)
              for field in ("ms", "low"))  # fmt: skip
    y = marks.names("label", [row["label"] for row in rows], grid=False, labelFontSize=12)
    base = alt.Chart(data(rows)).encode(y=y)
    bars = base.mark_rule(strokeWidth=2).encode(x=low, x2=alt.X2("high:Q"), stroke=marks.STROKE)
    points = base.mark_point(
        filled=True, size=110, opacity=1, stroke=palette.PAPER.light, strokeWidth=1
    ).encode(x=x, fill=marks.FILL)
    return alt.layer(bars, points).properties(width=size.plot_width, height=alt.Step(34))
