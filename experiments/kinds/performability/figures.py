"""Each fault over time, as Broadwell's Fig. 9 to 13; what users got of it, as Fig. 15 to 19."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from experiments.kinds.performability.folder import Measured, Run
from experiments.kinds.performability.phases import periods
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn, log_ticks
from experiments.report.layout import Size
from optimizer.style import data

_GOOD, _FAILED = palette.ARMS[0].light, palette.FAULT.light
_THRESHOLD_COLOURS = tuple(palette.ARMS[place].light for place in (2, 1, 3))


def course_figure(run: Run, fault: int, name: str) -> Figure:
    """One fault on every arm: answers a second, and the mean latency, period by period."""
    rows, ended_s = [], 0.0
    for arm in run.arms:
        blocks = [one for one in run.blocks if one.fault == fault and one.arm == arm]
        rows += _periods(run, arm, blocks)
        ended_s = max([ended_s, *(one.course.end_s - one.course.start_s for one in blocks)])
    identity, title = f"course-{fault}", f"{name}: over time"
    if not rows:
        return Figure(identity, title, "", (), {}, "No block of it was measured.")
    count = max(sum(b.fault == fault and b.arm == arm for b in run.blocks) for arm in run.arms)
    caption = (
        f"Means of {count} repeats, in periods of {run.section.period_s:g} s; 0 is the moment of "
        f"the fault, which lasts as long as the shade. Above: requests a second by what became of "
        f"them; below: mean latency of all requests, failed ones at the time they took."
    )
    legend = (Key("box", _GOOD, "answered well"), Key("box", _FAILED, "not"),
              Key("line", palette.MARKER.light, "mean latency"))  # fmt: skip
    return drawn(identity, title, caption, legend, lambda size: _courses(run, rows, ended_s, size))


def _periods(run: Run, arm: str, blocks: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row for each period and outcome; requests a second of a repeat, on average."""
    if not blocks:
        return []
    period_s = run.section.period_s
    found = pl.concat([periods(one.requests, one.course.start_s, period_s) for one in blocks])
    merged = (
        found.group_by("period")
        .agg(
            pl.len().alias("repeats"),
            pl.col("requests").sum(),
            pl.col("ok").sum(),
            ((pl.col("mean_ms") * pl.col("requests")).sum() / pl.col("requests").sum()).alias("ms"),
        )
        .filter(pl.col("repeats") == len(blocks))  # whole periods of every repeat
        .sort("period")
    )
    seconds = len(blocks) * period_s
    return [
        {
            "arm": arm,
            "t": row["period"] * period_s,
            "zero": 0.0,
            "end": (row["period"] + 1) * period_s,
            "good": row["ok"] / seconds,
            "all": row["requests"] / seconds,
            "ms": max(row["ms"], 0.01),
        }
        for row in merged.iter_rows(named=True)
    ]


def _courses(run: Run, rows: list[dict[str, Any]], ended_s: float, size: Size) -> Any:
    domain = [min(row["t"] for row in rows), max(row["end"] for row in rows)]
    top = max(row["all"] for row in rows) * 1.1
    slow = [min(row["ms"] for row in rows) * 0.7, max(row["ms"] for row in rows) * 1.4]
    panels = []
    for arm in run.arms:
        of_arm = [row for row in rows if row["arm"] == arm]
        panels += [
            _rates(of_arm, arm, domain, top, ended_s, size),
            _latencies(of_arm, domain, slow, ended_s, size),
        ]
    return alt.vconcat(*panels, spacing=8)


def _x(domain: Sequence[float], title: str | None) -> Any:
    axis = alt.Axis(title=title, tickCount=8, grid=False, labels=title is not None)
    return alt.X("t:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)


def _shade(domain: Sequence[float], ended_s: float) -> Any:
    rows = [{"t": 0.0, "end": ended_s}]
    mark = alt.Chart(data(rows)).mark_rect(fill=_FAILED, opacity=0.12)
    return mark.encode(x=_x(domain, None), x2="end:Q")


def _rates(
    rows: list[dict[str, Any]],
    arm: str,
    domain: Sequence[float],
    top: float,
    ended_s: float,
    size: Size,
) -> Any:
    axis = alt.Axis(title="requests/s", tickCount=4, minExtent=52, maxExtent=52)
    scale = alt.Scale(domain=[0, top], nice=False)
    base = alt.Chart(data(rows))
    x = _x(domain, None)
    good = base.mark_rect(fill=_GOOD).encode(
        x=x, x2="end:Q", y=alt.Y("zero:Q", scale=scale, axis=axis), y2="good:Q"
    )
    failed = base.mark_rect(fill=_FAILED).encode(
        x=x, x2="end:Q", y=alt.Y("good:Q", scale=scale, axis=axis), y2="all:Q"
    )
    return alt.layer(_shade(domain, ended_s), good, failed).properties(
        width=size.plot_width, height=84, title=alt.TitleParams(arm, anchor="start")
    )


def _latencies(
    rows: list[dict[str, Any]],
    domain: Sequence[float],
    slow: list[float],
    ended_s: float,
    size: Size,
) -> Any:
    ticks = log_ticks(slow)
    axis = alt.Axis(title="ms", values=ticks, format=",~g", minExtent=52, maxExtent=52)
    y = alt.Y("ms:Q", scale=alt.Scale(type="log", domain=slow, nice=False), axis=axis)
    line = (
        alt.Chart(data(rows))
        .mark_line(interpolate="step-after", stroke=palette.MARKER.light, strokeWidth=1.4)
        .encode(x=_x(domain, "time since the fault, s"), y=y)
    )
    return alt.layer(_shade(domain, ended_s), line).properties(width=size.plot_width, height=84)


def shares_figure(faults: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> Figure:
    """Goodput and punctuality of each failure (Fig. 15 and 16)."""
    rows = [
        {"what": what, "value": one["failure"][key], **_place(fault, arm, arms)}
        for fault in faults
        for arm, one in fault["arms"].items()
        for what, key in (("goodput", "goodput"), ("punctuality", "punctuality"))
        if one["failure"][key] is not None
    ]
    caption = (
        "While the failure lasted. Goodput: requests that were answered well, of all. Punctuality: "
        "the ideal mean latency over the measured one. 1 is as without a fault."
    )
    return _dots("shares", "Goodput and punctuality during each failure", caption, rows, arms)


def demerits_figure(faults: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> Figure:
    """Demerits of one fault (Fig. 19)."""
    rows = [
        {
            "what": "demerits of one fault",
            "value": one["cost"]["demerits"]["median"],
            **_place(fault, arm, arms),
        }
        for fault in faults
        for arm, one in fault["arms"].items()
    ]
    caption = (
        "8 for a time-out, 2 for a connection given up, 1 for one refused or a wrong answer, 1 for "
        "each second above the ideal; of all requests while the failure lasted, median of repeats."
    )
    return _dots("demerits", "Demerits of each fault", caption, rows, arms, top=None)


def thresholds_figure(faults: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> Figure:
    """Shares of requests above each threshold (Fig. 18)."""
    rows = [
        {
            "what": f"above {limit} s",
            "value": share,
            **_place(fault, arm, arms),
        }
        for fault in faults
        for arm, one in fault["arms"].items()
        for limit, share in one["failure"]["share_above_s"].items()
        if share is not None
    ]
    caption = "The share of all requests during the failure that took longer, failed ones included."
    return _dots("thresholds", "How often a request exceeds a threshold", caption, rows, arms)


def _place(fault: Mapping[str, Any], arm: str, arms: Sequence[str]) -> dict[str, Any]:
    return {
        "fault": fault["name"],
        "arm": arm,
        "colour": palette.arm_colour(arms, arm).light,
        "shape": palette.arm_shape(arms, arm),
    }


def _dots(
    identity: str,
    title: str,
    caption: str,
    rows: list[dict[str, Any]],
    arms: Sequence[str],
    top: float | None = 1.0,
) -> Figure:
    """A panel for each `what`, a line for each fault, a point for each arm."""
    if not rows:
        return Figure(identity, title, "", (), {}, "No request was measured during a failure.")
    legend = tuple(
        Key(palette.arm_shape(arms, arm), palette.arm_colour(arms, arm).light, arm) for arm in arms
    )
    return drawn(identity, title, caption, legend, lambda size: _panels(rows, top, size))


def _panels(rows: list[dict[str, Any]], top: float | None, size: Size) -> Any:
    whats = list(dict.fromkeys(row["what"] for row in rows))
    names = list(dict.fromkeys(row["fault"] for row in rows))
    across = 1 if size.small else min(3, len(whats))
    width = (size.plot_width - 140) / across - 20
    panels = []
    for place, what in enumerate(whats):
        of_what = [row for row in rows if row["what"] == what]
        high = top or max(row["value"] for row in of_what) * 1.08 or 1.0
        first = place % across == 0
        y = alt.Y(
            "fault:N",
            sort=names,
            axis=alt.Axis(title=None, grid=True, labels=first, ticks=first, labelLimit=200),
        )
        x = alt.X(
            "value:Q",
            scale=alt.Scale(domain=[0, high], nice=False),
            axis=alt.Axis(title=what, tickCount=4),
        )
        points = alt.Chart(data(of_what)).mark_point(filled=True, size=72, opacity=0.9)
        panels.append(
            points.encode(
                x=x,
                y=y,
                fill=alt.Fill("colour:N", scale=None),
                shape=alt.Shape("shape:N", scale=None),
            ).properties(width=width, height=30 * len(names))
        )
    lines = [alt.hconcat(*panels[i : i + across]) for i in range(0, len(panels), across)]
    return alt.vconcat(*lines) if len(lines) > 1 else lines[0]


def box_figure(faults: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> Figure:
    """Latencies during each failure: box from quartile to quartile, whiskers from 5 to 95 %
    (Fig. 17)."""
    rows = [
        {**one["box_ms"], **_place(fault, arm, arms), "line": f"{fault['name']} · {arm}"}
        for fault in faults
        for arm, one in fault["arms"].items()
        if one["box_ms"] is not None
    ]
    title = "Latency during each failure"
    if not rows:
        return Figure("box", title, "", (), {}, "No request was measured during a failure.")
    caption = (
        "Of all requests while the failure lasted, failed ones at the time they took. Box: the "
        "middle half, line: the median; whiskers: from 5 to 95 %; diamond: the mean."
    )
    legend = tuple(Key("box", palette.arm_colour(arms, arm).light, arm) for arm in arms)
    return drawn("box", title, caption, legend, lambda size: _boxes(rows, size))


def _boxes(rows: list[dict[str, Any]], size: Size) -> Any:
    names = [row["line"] for row in rows]
    low = max(min(row["q5"] for row in rows) * 0.7, 0.01)
    domain = [low, max(max(row["q95"], row["mean"]) for row in rows) * 1.4]
    axis = alt.Axis(title="latency, ms (log scale)", values=log_ticks(domain), format=",~g")
    scale = alt.Scale(type="log", domain=domain, nice=False, clamp=True)

    def x(key: str) -> Any:
        return alt.X(f"{key}:Q", scale=scale, axis=axis)

    limit = 120 if size.small else 260
    y = alt.Y("line:N", sort=names, axis=alt.Axis(title=None, labelLimit=limit))
    base = alt.Chart(data(rows))
    fill = alt.Fill("colour:N", scale=None)
    stroke = alt.Stroke("colour:N", scale=None)
    whisker = base.mark_rule(strokeWidth=1.4).encode(x=x("q5"), x2="q95:Q", y=y, stroke=stroke)
    box = base.mark_bar(height=11).encode(x=x("q25"), x2="q75:Q", y=y, fill=fill)
    tick = base.mark_tick(thickness=2, size=15, color=palette.MARKER.light)
    mean = base.mark_point(
        shape="diamond", filled=True, size=46, fill=palette.PAPER.light,
        stroke=palette.MARKER.light, strokeWidth=1.2,
    )  # fmt: skip
    layers = [whisker, box, tick.encode(x=x("q50"), y=y), mean.encode(x=x("mean"), y=y)]
    return alt.layer(*layers).properties(
        width=size.plot_width - (limit - 60), height=24 * len(rows)
    )
