"""Users' view of each fault, arm beside arm, as Broadwell's Fig. 14 to 19."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from core.chart_style import Row, Rows, data
from experiments.kinds.performability.folder import Run
from experiments.kinds.performability.tables import waited_s
from experiments.record.metrics.weights import performability_weights
from experiments.report import marks, palette
from experiments.report.figures import Figure, drawn
from experiments.report.layout import Size

_CURVE_MS = np.geomspace(1.0, 8000.0, 60)  # up to the report's longest wait
_NEVER = "No request was measured during a failure."

Fault = Mapping[str, Any]


@dataclass(frozen=True)
class _Dots:
    """A figure of an arm's values under each fault, a panel for each."""

    identity: str
    title: str
    caption: str
    values: Callable[[Mapping[str, Any]], Iterable[tuple[str, float | None]]]
    top: float | None = None  # of the usual axis
    without: bool = False  # with a line for no fault


_DOTS = (
    _Dots(  # Fig. 14
        "totals",
        "Throughput and latency in all",
        "While the failure lasted, which is not equally long: only arms under the same fault can "
        "be compared. Means of repeats.",
        lambda arm: (
            ("requests answered well", arm["failure"]["ok"] / arm["repeats"]),
            ("waited in all, s", waited_s(arm["failure"]) / arm["repeats"]),
        ),
    ),
    _Dots(  # Fig. 15
        "averages",
        "Throughput and latency on average",
        "While the failure lasted. The mean is of the middle 95 % of all requests, failed ones at "
        "the time-out; the standard deviation is of all.",
        lambda arm: (
            ("answered well a second", arm["failure"]["goodput_per_s"]),
            ("trimmed-mean latency, ms", arm["failure"]["trimmed_mean_ms"]),
            ("standard deviation, ms", arm["failure"]["sd_ms"]),
        ),
        without=True,
    ),
    _Dots(  # Fig. 15 and 16
        "shares",
        "Goodput and punctuality during each failure",
        "While the failure lasted. Goodput: requests that were answered well, of all. Punctuality: "
        "the ideal mean latency over the measured one. 1 is as without a fault; "
        "above 1: requests that failed at once did not wait.",
        lambda arm: ((key, arm["failure"][key]) for key in ("goodput", "punctuality")),
        top=1.0,
    ),
    _Dots(  # Fig. 19
        "demerits",
        "Demerits of each fault",
        "8 for a time-out, 2 for a connection given up, 1 for one refused or a wrong answer, 1 for "
        "each second above the ideal; of all requests while the failure lasted, median of repeats.",
        lambda arm: [("demerits of one fault", arm["cost"]["demerits"]["median"])],
    ),
    _Dots(  # Fig. 18
        "thresholds",
        "How often a request exceeds a threshold",
        "The share of all requests during the failure that took longer, failed ones included.",
        lambda arm: (
            (f"above {limit} s", share) for limit, share in arm["failure"]["share_above_s"].items()
        ),
        top=1.0,
    ),
)


def dots_figures(
    faults: Sequence[Fault], before: Mapping[str, Any], arms: Sequence[str]
) -> list[Figure]:
    """Return all of `_DOTS`; `before` has the arms without a fault."""
    no_fault = {
        "name": "no fault",
        "arms": {arm: {"failure": service} for arm, service in before.items()},
    }
    return [_dots(dots, [no_fault, *faults] if dots.without else faults, arms) for dots in _DOTS]


def _dots(dots: _Dots, faults: Sequence[Fault], arms: Sequence[str]) -> Figure:
    rows = [
        {"what": quantity, "value": value, **_look(fault, arm, arms)}
        for fault in faults
        for arm, figures in fault["arms"].items()
        for quantity, value in dots.values(figures)
        if value is not None
    ]
    if not rows:
        return Figure(dots.identity, dots.title, "", (), {}, _NEVER)
    return drawn(
        dots.identity,
        dots.title,
        dots.caption,
        marks.arm_keys(arms),
        lambda size: _panels(rows, dots.top, size),
    )


def _look(fault: Fault, arm: str, arms: Sequence[str]) -> Row:
    return {
        "fault": fault["name"],
        "arm": arm,
        "colour": palette.arm_colour(arms, arm).light,
        "shape": palette.arm_shape(arms, arm),
    }


def _panels(rows: Rows, top: float | None, size: Size) -> Any:
    quantities = list(dict.fromkeys(row["what"] for row in rows))
    names = list(dict.fromkeys(row["fault"] for row in rows))
    across = 1 if size.small else min(3, len(quantities))
    width = (size.plot_width - 140) / across - 20
    panels = []
    for index, quantity in enumerate(quantities):
        quantity_rows = [row for row in rows if row["what"] == quantity]
        most = max(row["value"] for row in quantity_rows)
        high = most * 1.08 or 1.0
        if top is not None and top / 10.0 < most <= top:
            high = top
        first = index % across == 0
        axis = alt.Axis(title=None, grid=True, labels=first, ticks=first, labelLimit=400)
        y = alt.Y("fault:N", sort=names, axis=axis)
        x = marks.linear(alt.X, "value", quantity, [0, high], tickCount=4)
        points = marks.points(quantity_rows, x, y, 72)
        panels.append(points.properties(width=width, height=30 * len(names)))
    return marks.in_rows(panels, across)


def box_figure(faults: Sequence[Fault], arms: Sequence[str]) -> Figure:
    """Chart latencies during each failure: box from quartile to quartile, whiskers from 5 to 95 %
    (Fig. 17)."""
    rows = [
        {**figures["box_ms"], **_look(fault, arm, arms), "line": f"{fault['name']} · {arm}"}
        for fault in faults
        for arm, figures in fault["arms"].items()
        if figures["box_ms"] is not None
    ]
    title = "Latency during each failure"
    if not rows:
        return Figure("box", title, "", (), {}, _NEVER)
    caption = (
        "Of all requests while the failure lasted, failed ones at the time-out. Box: the "
        "middle half, line: the median; whiskers: from 5 to 95 %; diamond: the mean."
    )
    legend = marks.arm_keys(arms, "box")
    return drawn("box", title, caption, legend, lambda size: _boxes(rows, size))


def _boxes(rows: Rows, size: Size) -> Any:
    names = [row["line"] for row in rows]
    low = max(min(row["q5"] for row in rows) * 0.7, 0.01)
    domain = [low, max(max(row["q95"], row["mean"]) for row in rows) * 1.4]

    def x(key: str) -> Any:
        return marks.logarithmic(alt.X, key, "latency, ms (log scale)", domain)

    room, step = (150, 34) if size.small else (200, 24)
    lines = "split(replace(datum.label, ' on ', '\\non '), '\\n')" if size.small else "datum.label"
    axis = alt.Axis(title=None, labelLimit=400, labelExpr=lines, labelFontSize=11)
    y = alt.Y("line:N", sort=names, axis=axis)
    base = alt.Chart(data(rows))
    whisker = base.mark_rule(strokeWidth=1.4)
    whisker = whisker.encode(x=x("q5"), x2=alt.X2("q95:Q"), y=y, stroke=marks.STROKE)
    box = base.mark_bar(height=11).encode(x=x("q25"), x2=alt.X2("q75:Q"), y=y, fill=marks.FILL)
    tick = base.mark_tick(thickness=2, size=15, color=palette.MARKER.light)
    mean = base.mark_point(
        shape="diamond", filled=True, size=46, fill=palette.PAPER.light,
        stroke=palette.MARKER.light, strokeWidth=1.2,
    )  # fmt: skip
    layers = [whisker, box, tick.encode(x=x("q50"), y=y), mean.encode(x=x("mean"), y=y)]
    return alt.layer(*layers).properties(width=size.plot_width - room, height=step * len(rows))


def exceedance_figure(run: Run, faults: Sequence[Fault]) -> Figure:
    """Chart the share of requests beyond any threshold, as the report would have it (5.5)."""
    rows = []
    for index, fault in enumerate(faults):
        for arm in fault["arms"]:
            failing = pl.concat([block.failing for block in run.blocks_of(arm, index)])
            latency_ms = np.sort(failing["latency_ms"].to_numpy())
            if latency_ms.size:
                above = 1.0 - np.searchsorted(latency_ms, _CURVE_MS, side="right") / latency_ms.size
                look = _look(fault, arm, run.arms)
                pairs = zip(_CURVE_MS.tolist(), above.tolist(), strict=True)
                rows += [{"ms": ms, "share": share, **look} for ms, share in pairs]
    title = "How often a request exceeds any threshold"
    if not rows:
        return Figure("exceedance", title, "", (), {}, _NEVER)
    caption = (
        "The share of all requests during the failure that took longer, failed ones included; "
        "dotted: the thresholds above."
    )
    legend = marks.arm_keys(run.arms, "line")
    return drawn("exceedance", title, caption, legend, lambda size: _curves(rows, size))


def _curves(rows: Rows, size: Size) -> Any:
    across = 1 if size.small else 2
    x = marks.logarithmic(alt.X, "ms", "latency, ms (log scale)", [1, 8000],
                          values=[1, 10, 100, 1000])  # fmt: skip
    y = marks.linear(alt.Y, "share", "share", [0, 1], tickCount=4)
    limits = [{"ms": 1e3 * limit} for limit in performability_weights().thresholds_s]
    panels = []
    for name in dict.fromkeys(row["fault"] for row in rows):
        fault_rows = [row for row in rows if row["fault"] == name]
        curve = marks.line(fault_rows, x, y, interpolate="step-after", strokeWidth=1.8)
        panels.append(
            alt.layer(marks.rule(limits, (1, 3), x=x), curve.encode(stroke=marks.STROKE))
            .properties(width=(size.plot_width - 60 * (across - 1)) / across, height=110,
                        title=alt.TitleParams(name, anchor="start"))
        )  # fmt: skip
    return marks.in_rows(panels, across)
