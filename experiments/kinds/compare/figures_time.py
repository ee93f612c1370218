"""The run over time: every request, and below a lane for each machine that was disturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from core.chart_style import data
from core.runfiles.events import Window, of_kind
from experiments.kinds.compare.figures_disturbed import (
    AXIS_EXTENT,
    disturbances_of,
    lanes,
    run_time,
    shading,
)
from experiments.kinds.compare.folder import RunFolder
from experiments.report import marks, palette
from experiments.report.layout import Size

_BINS = 90
_SEED = 1


def blocks_of(run: RunFolder) -> list[Window]:
    """Return the arms' blocks in order of time, from the events or else from the requests."""
    recorded = of_kind(run.windows, "arm")
    if recorded:
        return [
            Window("arm", w.kind, "", w.arm or w.kind, w.repeat, w.start_s, w.end_s, w.closed, "")
            for w in recorded
        ]
    spans = run.requests.group_by("arm", "repeat").agg(
        pl.col("intended_s").min().alias("start"), pl.col("intended_s").max().alias("end")
    )
    return [
        Window("arm", arm, "", arm, repeat, start, end, closed=True, text="")
        for arm, repeat, start, end in spans.sort("start").iter_rows()
    ]


def shown_points(requests: pl.DataFrame, points_max: int) -> pl.DataFrame:
    """Return at most `points_max` requests; failed ones and the slowest tenth come first."""
    if requests.height <= points_max:
        return requests
    ranked = requests.with_columns(
        ((pl.col("outcome") != "ok") * 2 + (pl.col("latency_ms").rank("min") / pl.len() > 0.9) * 1)
        .cast(pl.Int32)
        .alias("weight")
    )
    order = np.random.default_rng(_SEED).permutation(requests.height)
    return (
        ranked.with_columns(pl.Series("order", order))
        .sort("weight", "order", descending=[True, False])
        .head(points_max)
        .drop("weight", "order")
        .sort("intended_s")
    )


def latency_over_time(run: RunFolder, size: Size) -> Any:
    """Chart blocks of arms, latencies with shaded disturbances, and a lane for each machine."""
    blocks, disturbances = blocks_of(run), disturbances_of(run)
    domain = time_domain(run, blocks)
    below = lanes(disturbances, domain, size)
    x = run_time(domain, size) if below is None else _hidden("t", domain)
    panel = _latency_panel(run, disturbances, domain, size, x)
    parts = [_block_strip(run, blocks, domain, size), panel]
    if below is not None:
        parts.append(below)
    return alt.vconcat(*parts, spacing=6)


def time_domain(run: RunFolder, blocks: Sequence[Window]) -> list[float]:
    starts = [block.start_s for block in blocks]
    ends = [block.end_s for block in blocks]
    if run.requests.height:
        ends.append(float(str(run.requests["intended_s"].max())))
        starts.append(float(str(run.requests["intended_s"].min())))
    return [max(0.0, min(starts, default=0.0)), max(ends, default=1.0)]


def _block_strip(run: RunFolder, blocks: Sequence[Window], domain: list[float], size: Size) -> Any:
    room_px = size.plot_width / max(1, len(blocks))
    rows = [
        {
            "t": max(block.start_s, domain[0]),
            "end": min(block.end_s, domain[1]),
            "middle": (block.start_s + block.end_s) / 2,
            "colour": palette.arm_colour(run.arms, block.arm).light,
            "label": _text_that_fits(block.arm, room_px - 6),
        }
        for block in blocks
    ]
    base = alt.Chart(data(rows), height=20, width=size.plot_width)
    bars = base.mark_rect().encode(x=_hidden("t", domain), x2=alt.X2("end:Q"), fill=marks.FILL)
    names = base.mark_text(fontSize=12, fontWeight=600, fill=palette.PAPER.light)
    return alt.layer(bars, names.encode(x=_hidden("middle", domain), text=alt.Text("label:N")))


def _hidden(field: str, domain: Sequence[float]) -> Any:
    """Return the axis of a panel above others, without words."""
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=None)


def _text_that_fits(name: str, room_px: float) -> str:
    """Return the name if it fits; the legend has the colours of all arms."""
    return name if len(name) <= int(room_px / 7) else ""


def _latency_panel(
    run: RunFolder, disturbances: Sequence[Window], domain: list[float], size: Size, x: Any
) -> Any:
    limits = _slo_limits(run)
    y_domain = _latency_domain(run.requests, list(limits.values()))
    y = marks.logarithmic(
        alt.Y, "ms", "latency, ms", y_domain, format="~s" if y_domain[1] > 1e5 else ",~g",
        minExtent=AXIS_EXTENT, maxExtent=AXIS_EXTENT,
    )  # fmt: skip
    layers = [
        shading(disturbances, domain, x),
        _slo_rules(limits, domain, x, y),
        _points(run, size, x, y),
        _median_steps(run, x, y),
        _failures(run, size, x, y, y_domain[0]),
    ]
    return alt.layer(*layers, height=260 if size.small else 300, width=size.plot_width)


def _slo_limits(run: RunFolder) -> dict[str, float]:
    slo = run.spec.get("slo") or {}
    return {name: float(slo[f"{name}_ms"]) for name in ("p95", "p99") if slo.get(f"{name}_ms")}


def _latency_domain(requests: pl.DataFrame, limits: Sequence[float]) -> list[float]:
    """Return the bounds of the axis: the range of latencies, extended to the limits of the SLO."""
    latencies = requests["latency_ms"].to_numpy()
    latencies = latencies[latencies > 0]
    if latencies.size == 0:
        return [1.0, 1000.0]
    low, high = float(np.quantile(latencies, 0.001)), float(latencies.max())
    low, high = min([low, *limits]), max([high, *limits, low * 2 / 1.15])
    return [max(0.1, low * 0.8), high * 1.15]


def _slo_rules(limits: Mapping[str, float], domain: list[float], x: Any, y: Any) -> Any:
    rows = [{"ms": ms, "t": domain[1], "label": f"SLO {name}"} for name, ms in limits.items()]
    base = alt.Chart(data(rows))
    rule = base.mark_rule(strokeDash=[4, 3], stroke=palette.MARKER.light, opacity=0.7)
    label = base.mark_text(
        align="right", baseline="bottom", dx=-3, dy=-2, fontSize=11, fill=palette.MARKER.light
    )
    return alt.layer(rule.encode(y=y), label.encode(x=x, y=y, text=alt.Text("label:N")))


def _points(run: RunFolder, size: Size, x: Any, y: Any) -> Any:
    good = shown_points(run.requests.filter(pl.col("outcome") == "ok"), size.points_max)
    rows = [
        {
            "t": round(at_s, 2),
            "ms": round(max(latency_ms, 0.1), 2),
            "colour": palette.arm_colour(run.arms, arm).light,
            "opacity": 0.22 if phase == "warm-up" else 0.5,
        }
        for at_s, latency_ms, arm, phase in good.select(
            "intended_s", "latency_ms", "arm", "phase"
        ).iter_rows()
    ]
    return (
        alt.Chart(data(rows))
        .mark_circle(size=9 if size.small else 12)
        .encode(x=x, y=y, fill=marks.FILL, fillOpacity=alt.FillOpacity("opacity:Q", scale=None))
    )


def median_bin_s(run: RunFolder) -> float:
    """Width of the bins of the median line."""
    domain = time_domain(run, blocks_of(run))
    return float(max(1, round((domain[1] - domain[0]) / _BINS)))


def _median_steps(run: RunFolder, x: Any, y: Any) -> Any:
    """Return the median of each bin of three requests or more as a step; neighbouring steps are
    joined.
    """
    bin_s, block = median_bin_s(run), ("arm", "repeat")
    at_s = pl.col("intended_s")
    binned = (
        run.requests.with_columns(
            ((at_s / bin_s).floor() * bin_s).alias("bin"),
            at_s.min().over(block).alias("first"),
            at_s.max().over(block).alias("last"),
        )
        .group_by(*block, "bin", "first", "last")
        .agg(pl.col("latency_ms").median(), pl.len().alias("n"))
        .filter(pl.col("n") >= 3)
        .sort("bin")
        .with_columns(
            (pl.col("bin").diff() > bin_s).fill_null(False).cum_sum().over(block).alias("gaps")
        )
    )
    rows = [
        {"t": round(t, 2), "ms": round(max(row["latency_ms"], 0.1), 2),
         "line": f"{row['arm']} {row['repeat']} {row['gaps']}"}
        for row in binned.iter_rows(named=True)
        for t in (max(row["bin"], row["first"]), min(row["bin"] + bin_s, row["last"]))
    ]  # fmt: skip
    base = alt.Chart(data(rows)).encode(x=x, y=y, detail=alt.Detail("line:N"))
    halo = base.mark_line(stroke=palette.PAPER.light, strokeWidth=4.5)
    return alt.layer(halo, base.mark_line(stroke=palette.MARKER.light, strokeWidth=1.8))


def _failures(run: RunFolder, size: Size, x: Any, y: Any, low_ms: float) -> Any:
    failed = shown_points(run.requests.filter(pl.col("outcome") != "ok"), size.points_max)
    rows = [
        {"t": round(at_s, 2), "ms": round(max(latency_ms, low_ms * 1.1), 2)}
        for at_s, latency_ms in failed.select("intended_s", "waited_ms").iter_rows()
    ]
    return (
        alt.Chart(data(rows))
        .mark_point(
            shape="cross", angle=45, size=42, fill=palette.FAULT.light, stroke=palette.PAPER.light,
            strokeWidth=0.6, filled=True,
        )
        .encode(x=x, y=y)
    )  # fmt: skip
