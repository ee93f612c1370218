"""Each fault over time, as Broadwell's Fig. 9 to 13: outcomes of requests, and their latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from core.chart_style import Rows, data
from core.statistics.percentiles import OK
from experiments.kinds.performability.folder import MeasuredBlock, Run
from experiments.kinds.performability.phases import periods
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

_GROUPS = (  # as the report's curves; other outcomes had no answer in time
    ("answered well", (OK,), palette.ARMS[0].light),
    ("failed at once", ("connection_error", "bad_status", "bad_content"), palette.ARMS[1].light),
    ("no connection in time", ("aborted_connection",), palette.ARMS[3].light),
)
_LATE = ("no answer in time", palette.FAULT.light)
_HEIGHT = 84
_EXTENT = {"minExtent": 52, "maxExtent": 52}  # so that panels are aligned


def course_figure(run: Run, fault: int, name: str) -> Figure:
    """Chart one fault on every arm: requests a second by outcome, and the mean latency."""
    arm_blocks = {arm: blocks for arm in run.arms if (blocks := run.blocks_of(arm, fault))}
    identity, title = f"course-{fault}", f"{name}: over time"
    if not arm_blocks:
        return Figure(identity, title, "", (), {}, "No block of it was measured.")
    restarts = any(
        block.course.reset_s is not None for blocks in arm_blocks.values() for block in blocks
    )
    caption = (
        f"Means of {max(map(len, arm_blocks.values()))} repeats, in periods of "
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
    rows = {arm: _periods(run, blocks) for arm, blocks in arm_blocks.items()}
    return drawn(identity, title, caption, legend, lambda size: _courses(rows, arm_blocks, size))


def _periods(run: Run, blocks: Sequence[MeasuredBlock]) -> Rows:
    """Return a row for each period that every repeat has: the bounds of each outcome's requests a
    second in the stack, and the mean latency.
    """
    period_s = run.section.period_s
    all_periods = pl.concat(
        [periods(block.requests, block.course.start_s, period_s) for block in blocks]
    )
    merged = (
        all_periods.group_by("period")
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
            "stack": _stack(row["outcomes"], seconds),
            "all": row["requests"] / seconds,
            "ms": max(row["ms"], 0.01),
        }
        for row in merged.iter_rows(named=True)
    ]


def _stack(outcomes: Sequence[str], seconds: float) -> list[tuple[str, float, float]]:
    """Return colour, lower and upper bound [requests/s] of each group that has requests."""
    bands, low = [], 0.0
    for _, names, colour in _GROUPS:
        high = low + sum(name in names for name in outcomes) / seconds
        bands.append((colour, low, high))
        low = high
    bands.append((_LATE[1], low, len(outcomes) / seconds))
    return [band for band in bands if band[2] > band[1]]


def _courses(rows: dict[str, Rows], blocks: dict[str, list[MeasuredBlock]], size: Size) -> Any:
    all_rows = [row for arm_rows in rows.values() for row in arm_rows]
    domain = [min(row["t"] for row in all_rows), max(row["end"] for row in all_rows)]
    top = max(row["all"] for row in all_rows) * 1.1
    slow = [min(row["ms"] for row in all_rows) * 0.7, max(row["ms"] for row in all_rows) * 1.4]
    above, below = _x(domain, None), _x(domain, "time since the fault, s")
    panels = []
    for arm, arm_rows in rows.items():
        rates = alt.layer(*_fault_marks(blocks[arm], above), _rates(arm_rows, above, top))
        waits = alt.layer(*_fault_marks(blocks[arm], below), _latencies(arm_rows, below, slow))
        panels += [rates.properties(title=alt.TitleParams(arm, anchor="start")), waits]
    sized_panels = (panel.properties(width=size.plot_width, height=_HEIGHT) for panel in panels)
    return alt.vconcat(*sized_panels, spacing=8)


def _x(domain: Sequence[float], title: str | None) -> Any:
    labels = title is not None
    return marks.linear(alt.X, "t", title, domain, tickCount=8, grid=False, labels=labels)


def _fault_marks(blocks: Sequence[MeasuredBlock], x: Any) -> list[Any]:
    """Return the fault's shade, and lines at the restarts by an operator."""
    lasted_s = max(block.course.end_s - block.course.start_s for block in blocks)
    span = [{"t": 0.0, "end": lasted_s}]
    layers = [marks.shade(span, palette.FAULT.light, 0.12, x=x, x2=alt.X2("end:Q"))]
    resets = [{"t": block.course.reset_s} for block in blocks if block.course.reset_s is not None]
    return [*layers, marks.rule(resets, (3, 3), x=x)] if resets else layers


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
