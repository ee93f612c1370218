"""Figures of the distribution of latency, and of the improvement."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from core.chart_style import PERCENT_LABEL, Row, Rows, data
from core.runfiles.requests import measured
from experiments.kinds.compare.folder import RunFolder
from experiments.record.metrics.distribution import box_plot, ccdf
from experiments.report import marks, palette
from experiments.report.figures import log_ticks
from experiments.report.layout import Size
from experiments.report.text import statistic

_LATENCY_TITLE = "latency, ms (log scale)"
_COMPARED = (
    ("mean", -0.5, palette.ARMS[0].light, "circle"),
    ("p95", 0.5, palette.ARMS[1].light, "square"),
)
_SHOWN_QUANTILES = (("p50", 0.5), ("p90", 0.1), ("p95", 0.05), ("p99", 0.01), ("p99_9", 0.001))


def box_rows(run: RunFolder) -> Rows:
    """Return the box of each arm and phase; empty boxes are left out."""
    main = measured(run.requests)
    phases = main.sort("intended_s")["phase"].unique(maintain_order=True).to_list()
    rows = []
    for phase in phases:
        for arm in run.arms:
            chosen = main.filter((pl.col("arm") == arm) & (pl.col("phase") == phase))
            box = box_plot(chosen["latency_ms"].to_numpy())
            if box is None:
                continue
            label = arm if len(phases) == 1 else f"{phase}: {arm}"
            colour = palette.arm_colour(run.arms, arm).light
            rows.append({**box, "label": label, "arm": arm, "phase": phase, "colour": colour})
    return rows


def latency_boxes(run: RunFolder, size: Size) -> Any:
    """Chart horizontal boxes on a log axis: 5-25-50-75-95 %, mean, p99 and maximum."""
    rows = box_rows(run)
    low = max(0.05, min(row["p5_ms"] for row in rows) * 0.7)
    high = max(max(row["max_ms"] for row in rows) * 1.2, low * 3)
    y = marks.names("label", [row["label"] for row in rows], labelLimit=180, labelFontSize=12)
    colour, stroke = marks.FILL, marks.STROKE
    base = alt.Chart(data(rows)).encode(y=y)

    def x(field: str) -> Any:
        ticks = _ticks([low, high], size)
        return marks.logarithmic(alt.X, field, _LATENCY_TITLE, [low, high], values=ticks)

    layers = [
        base.mark_rule(strokeDash=[1, 3], strokeWidth=1.4).encode(
            x=x("p95_ms"), x2=alt.X2("max_ms:Q"), stroke=stroke
        ),
        base.mark_rule(strokeWidth=1.8).encode(x=x("p5_ms"), x2=alt.X2("p95_ms:Q"), stroke=stroke),
        base.mark_tick(size=14, thickness=1.8).encode(x=x("p5_ms"), fill=colour),
        base.mark_tick(size=14, thickness=1.8).encode(x=x("p95_ms"), fill=colour),
        base.mark_bar(size=24, cornerRadius=2).encode(
            x=x("p25_ms"), x2=alt.X2("p75_ms:Q"), fill=colour
        ),
        base.mark_tick(size=24, thickness=2.5, fill=palette.PAPER.light).encode(x=x("p50_ms")),
        _point(base, "diamond", 70, x("mean_ms"), colour),
        _point(base, "circle", 50, x("p99_ms"), colour),
        _point(base, "stroke", 120, x("max_ms"), colour, angle=90),
    ]
    labels = max(len(row["label"]) for row in rows) * 6.4 + 14
    width = size.width - min(180, labels) - 24
    return alt.layer(*layers, width=width, height=alt.Step(46))


def _point(base: Any, shape: str, area: int, x: Any, colour: Any, angle: int = 0) -> Any:
    return base.mark_point(
        shape=shape, size=area, filled=True, angle=angle, opacity=1,
        stroke=palette.PAPER.light if shape != "stroke" else palette.AXIS.light, strokeWidth=1.2,
    ).encode(x=x, fill=colour)  # fmt: skip


def _ticks(domain: list[float], size: Size) -> list[float]:
    ticks = log_ticks(domain)
    return ticks if not size.small or len(ticks) <= 6 else ticks[:: (len(ticks) + 5) // 6]


def latency_tail(run: RunFolder, size: Size) -> Any:
    """Chart the CCDF, the share of requests slower than x, on log axes with the SLO's corners."""
    main = measured(run.requests)
    curve: list[Row] = []
    quantiles: list[Row] = []
    for arm in run.arms:
        latencies_ms = main.filter(pl.col("arm") == arm)["latency_ms"].to_numpy()
        latencies_ms = latencies_ms[latencies_ms > 0]
        steps = ccdf(latencies_ms)
        colour = palette.arm_colour(run.arms, arm).light
        curve += _curve_rows(steps, arm, colour)
        quantiles += _quantile_rows(run, arm, colour, int(latencies_ms.size))
    if not curve:
        return None
    low = max(min(float(row["ms"]) for row in curve) * 0.8, 0.01)
    limits = [float(row["ms"]) for row in _slo_rows(run)]
    high = max([*(row["ms"] for row in curve), *limits]) * 1.15
    share_low = min(row["share"] for row in curve) * 0.8
    ticks = _ticks([low, high], size)
    x = marks.logarithmic(alt.X, "ms", _LATENCY_TITLE, [low, high], values=ticks)
    shares = [v for v in (1, 0.5, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-5) if v >= share_low]
    y = marks.logarithmic(
        alt.Y, "share", "share of requests that took longer", [share_low, 1.0], values=shares,
        labelExpr=PERCENT_LABEL,
    )  # fmt: skip
    line = alt.Chart(data(curve)).encode(
        x=x,
        y=y,
        detail=["arm:N", "part:N"],
        stroke=marks.STROKE,
        strokeDash=alt.StrokeDash("dash:N", scale=alt.Scale(domain=["full", "few"],
                                                            range=[[1, 0], [2, 3]]), legend=None),
    ).mark_line(interpolate="step-after", strokeWidth=2.2)  # fmt: skip
    edge = {"strokeWidth": 1, "stroke": palette.PAPER.light}
    points = marks.points(quantiles, x, y, 84, opacity=1, **edge)
    height = 280 if size.small else 340
    return alt.layer(_slo_corners(run, x, y), line, points, width=size.plot_width, height=height)


def _curve_rows(steps: Rows, arm: str, colour: str) -> Rows:
    """Return the curve in two parts that meet at one point: with enough samples beyond, and the
    rest.
    """
    rows = []
    for part, keep in (("full", True), ("few", False)):
        chosen = [step for step in steps if step["sufficient"] is keep]
        if part == "few" and chosen:
            before = [step for step in steps if step["sufficient"]]
            chosen = before[-1:] + chosen
        rows += [
            {"ms": round(step["latency_ms"], 4), "share": step["share"], "arm": arm, "part": part,
             "dash": part, "colour": colour}
            for step in chosen
        ]  # fmt: skip
    return rows


def _quantile_rows(run: RunFolder, arm: str, colour: str, count: int) -> Rows:
    figures = (run.summary.get("arms") or {}).get(arm) or {}
    return [
        {"ms": figures[f"{name}_ms"], "share": share, "colour": colour,
         "shape": palette.arm_shape(run.arms, arm)}
        for name, share in _SHOWN_QUANTILES
        if figures.get(f"{name}_ms") and count * share >= 1
    ]  # fmt: skip


def _slo_rows(run: RunFolder) -> Rows:
    slo = run.spec.get("slo") or {}
    return [
        {"ms": float(slo[key]), "share": share, "label": f"SLO {key.removesuffix('_ms')}"}
        for key, share in (("p95_ms", 0.05), ("p99_ms", 0.01))
        if slo.get(key)
    ]


def _slo_corners(run: RunFolder, x: Any, y: Any) -> Any:
    """Return the area that the SLO forbids to a curve: right of the limit and above its share."""
    base = alt.Chart(data([{**row, "top": 1.0} for row in _slo_rows(run)]))
    rule = base.mark_rule(stroke=palette.MARKER.light, strokeDash=[4, 3], opacity=0.7)
    label = base.mark_text(
        align="center", baseline="top", dy=7, fontSize=11, fill=palette.MARKER.light
    )
    mark = base.mark_point(
        shape="triangle-down", size=60, filled=True, opacity=1, fill=palette.MARKER.light
    )
    return alt.layer(
        rule.encode(x=x, y=y, y2=alt.Y2("top:Q")),
        mark.encode(x=x, y=y),
        label.encode(x=x, y=y, text=alt.Text("label:N")),
    )


def improvement_intervals(run: RunFolder, size: Size) -> Any:
    """Chart improvement factors with their intervals on a log axis; None if there is no factor."""
    look = {"colour": palette.MARKER.light, "shape": "circle"}
    rows = [
        {**_factor_row(entry), **look, "name": statistic(name)}
        for name, entry in (run.summary.get("improvement") or {}).items()
        if entry.get("factor") is not None
    ]
    if not rows:
        return None
    y = marks.names("name", [row["name"] for row in rows], grid=False)
    title = (
        "improvement factor, × (log scale)" if size.small
        else "improvement factor, baseline / other, × (log scale; right of 1: faster)"
    )  # fmt: skip
    base = alt.Chart(data(rows)).encode(y=y)
    return _factors(rows, base, title, 110, size).properties(
        width=size.plot_width, height=alt.Step(36)
    )


def comparison_factors(run: RunFolder, size: Size) -> Any:
    """Chart every arm's factors over the baseline, mean and p95, on a log axis, best p95 on top."""
    order = sorted(
        (run.summary.get("comparison") or {}).items(),
        key=lambda item: -(item[1]["p95"].get("factor") or 0.0),
    )
    rows = [
        {**_factor_row(entries[name]), "arm": arm, "shift": shift, "colour": colour, "shape": mark}
        for arm, entries in order
        for name, shift, colour, mark in _COMPARED
        if entries[name].get("factor") is not None
    ]
    y = marks.names("arm", [arm for arm, _ in order], labelLimit=180)
    offset = alt.YOffset("shift:Q", scale=alt.Scale(domain=[-1, 1], range=[0, 24]))
    base = alt.Chart(data(rows)).encode(y=y, yOffset=offset)
    title = "improvement factor, × (log scale; right of 1: faster)"
    labels = max(len(str(arm)) for arm, _ in order) * 6.4 + 14
    return _factors(rows, base, title, 70, size).properties(
        width=size.width - min(180, labels) - 24, height=alt.Step(26, **{"for": "position"})
    )


def _factor_row(entry: Row) -> Row:
    """Return factor and bounds; bounds far outside the measurable range are cut."""
    low, high = max(entry["ci_low"], 0.02), min(entry["ci_high"], 200.0)
    filled = not entry.get("insufficient")
    return {"factor": entry["factor"], "low": low, "high": high, "filled": filled}


def _factors(rows: Rows, base: Any, title: str, area: int, size: Size) -> Any:
    """Return factors with their intervals and a line at 1; a hollow point rests on few samples."""
    domain = [min(0.8, *(row["low"] for row in rows)) * 0.95,
              max(1.25, *(row["high"] for row in rows)) * 1.05]  # fmt: skip
    x, low = (
        marks.logarithmic(alt.X, field, title, domain, values=_ticks(domain, size))
        for field in ("factor", "low")
    )
    unity_rule = alt.Chart(data([{"factor": 1.0}])).mark_rule(
        stroke=palette.AXIS.light, strokeWidth=2
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=low, x2=alt.X2("high:Q"), stroke=marks.STROKE)
    solid = base.transform_filter("datum.filled").mark_point(size=area, filled=True, opacity=1)
    hollow = base.transform_filter("!datum.filled").mark_point(
        size=area, fill=palette.PAPER.light, strokeWidth=2, opacity=1
    )
    return alt.layer(
        unity_rule.encode(x=x),
        bars,
        solid.encode(x=x, fill=marks.FILL, shape=marks.SHAPE),
        hollow.encode(x=x, stroke=marks.STROKE, shape=marks.SHAPE),
    )
