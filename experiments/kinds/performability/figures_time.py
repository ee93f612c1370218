"""Each fault over time, as Broadwell's Fig. 9 to 13: outcomes of requests, and their latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from core.chart_style import Rows, data
from core.statistics.percentiles import OK
from experiments.kinds.performability.folder import Measured, Run
from experiments.kinds.performability.phases import periods
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

_GROUPS = (  # as the report's curves; whatever is none of these had no answer in time
    ("answered well", (OK,), palette.ARMS[0].light),
    ("failed at once", ("connection_error", "bad_status", "bad_content"), palette.ARMS[1].light),
    ("no connection in time", ("aborted_connection",), palette.ARMS[3].light),
)
_LATE = ("no answer in time", palette.FAULT.light)
_HEIGHT = 84
_EXTENT = {"minExtent": 52, "maxExtent": 52}  # so that panels are below each other


def course_figure(run: Run, fault: int, name: str) -> Figure:
    """One fault on every arm: requests a second by what became of them, and the mean latency."""
    of_arm = {
        arm: [one for one in run.blocks if one.fault == fault and one.arm == arm]
        for arm in run.arms
    }
    of_arm = {arm: blocks for arm, blocks in of_arm.items() if blocks}
    identity, title = f"course-{fault}", f"{name}: over time"
    if not of_arm:
        return Figure(identity, title, "", (), {}, "No block of it was measured.")
    restarts = any(one.course.reset_s is not None for blocks in of_arm.values() for one in blocks)
    caption = (
        f"Means of {max(map(len, of_arm.values()))} repeats, in periods of "
        f"{run.section.period_s:g} s; 0 is the moment of the fault, which lasts as long as the "
        f"shade{'; the line is the operator who restarts all' if restarts else ''}. Above: "
        f"requests a second by what became of them; below: mean latency of all requests, failed "
        f"ones at the time they took."
    )
    legend = (
        *(Key("box", colour, text) for text, _, colour in _GROUPS),
        Key("box", _LATE[1], _LATE[0]),
        Key("line", palette.MARKER.light, "mean latency"),
    )
    rows = {arm: _periods(run, blocks) for arm, blocks in of_arm.items()}
    return drawn(identity, title, caption, legend, lambda size: _courses(rows, of_arm, size))


def _periods(run: Run, blocks: Sequence[Measured]) -> Rows:
    """Return a row for each period that is whole in every repeat: from where to where each
    outcome's requests a second are stacked, and the mean latency.
    """
    period_s = run.section.period_s
    found = pl.concat([periods(one.requests, one.course.start_s, period_s) for one in blocks])
    merged = (
        found.group_by("period")
        .agg(
            pl.len().alias("repeats"),
            pl.col("requests").sum(),
            pl.col("outcomes").explode(),
            ((pl.col("mean_ms") * pl.col("requests")).sum() / pl.col("requests").sum()).alias("ms"),
        )
        .filter(pl.col("repeats") == len(blocks))
        .sort("period")
    )
    seconds = len(blocks) * period_s
    return [
        {
            "t": row["period"] * period_s,
            "end": (row["period"] + 1) * period_s,
            "stack": _stacked(row["outcomes"], seconds),
            "all": row["requests"] / seconds,
            "ms": max(row["ms"], 0.01),
        }
        for row in merged.iter_rows(named=True)
    ]


def _stacked(outcomes: Sequence[str], seconds: float) -> list[tuple[str, float, float]]:
    """Colour, from and to [requests/s] of each group that has any."""
    found, low = [], 0.0
    for _, names, colour in _GROUPS:
        high = low + sum(name in names for name in outcomes) / seconds
        found.append((colour, low, high))
        low = high
    found.append((_LATE[1], low, len(outcomes) / seconds))
    return [one for one in found if one[2] > one[1]]


def _courses(rows: dict[str, Rows], blocks: dict[str, list[Measured]], size: Size) -> Any:
    every = [row for of_arm in rows.values() for row in of_arm]
    domain = [min(row["t"] for row in every), max(row["end"] for row in every)]
    top = max(row["all"] for row in every) * 1.1
    slow = [min(row["ms"] for row in every) * 0.7, max(row["ms"] for row in every) * 1.4]
    above, below = _x(domain, None), _x(domain, "time since the fault, s")
    panels = []
    for arm, of_arm in rows.items():
        rates = alt.layer(*_fault_marks(blocks[arm], above), _rates(of_arm, above, top))
        waits = alt.layer(*_fault_marks(blocks[arm], below), _latencies(of_arm, below, slow))
        panels += [rates.properties(title=alt.TitleParams(arm, anchor="start")), waits]
    sized = (one.properties(width=size.plot_width, height=_HEIGHT) for one in panels)
    return alt.vconcat(*sized, spacing=8)


def _x(domain: Sequence[float], title: str | None) -> Any:
    labels = title is not None
    return marks.linear(alt.X, "t", title, domain, tickCount=8, grid=False, labels=labels)


def _fault_marks(blocks: Sequence[Measured], x: Any) -> list[Any]:
    """Return the fault's shade, and a line where an operator restarted all."""
    lasted_s = max(one.course.end_s - one.course.start_s for one in blocks)
    span = [{"t": 0.0, "end": lasted_s}]
    found = [marks.shade(span, palette.FAULT.light, 0.12, x=x, x2=alt.X2("end:Q"))]
    resets = [{"t": one.course.reset_s} for one in blocks if one.course.reset_s is not None]
    return [*found, marks.rule(resets, (3, 3), x=x)] if resets else found


def _rates(rows: Rows, x: Any, top: float) -> Any:
    boxes = [
        {"t": row["t"], "end": row["end"], "colour": colour, "low": low, "high": high}
        for row in rows
        for colour, low, high in row["stack"]
    ]
    y = marks.linear(alt.Y, "low", "requests/s", [0, top], tickCount=4, **_EXTENT)
    box = alt.Chart(data(boxes)).mark_rect()
    return box.encode(x=x, x2=alt.X2("end:Q"), y=y, y2=alt.Y2("high:Q"), fill=marks.FILL)


def _latencies(rows: Rows, x: Any, slow: list[float]) -> Any:
    y = marks.logarithmic(alt.Y, "ms", "ms", slow, **_EXTENT)
    waits = [{"t": row["t"], "ms": row["ms"]} for row in rows]
    stroke = palette.MARKER.light
    return marks.line(waits, x, y, interpolate="step-after", stroke=stroke, strokeWidth=1.4)
