"""Small panels: each server's latency as its arbiter measured it, and each machine's CPU."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from core.chart_style import Rows, data
from experiments.kinds.compare.figures_disturbed import disturbances_of, shading
from experiments.kinds.compare.figures_time import blocks_of, time_domain
from experiments.kinds.compare.folder import RunFolder
from experiments.report import marks, palette
from experiments.report.figures import log_ticks
from experiments.report.grid import Grid
from experiments.report.layout import Size
from experiments.report.text import by_number

PANELS_MAX = 24


def server_latencies(run: RunFolder) -> pl.DataFrame:
    """Mean latency of each server between two polls: tier, server, time_s, ms."""
    return (
        run.arbiters.sort("time_s")
        .with_columns(
            pl.col("latency_us_sum").diff().over("tier", "server").alias("us"),
            pl.col("latency_count").diff().over("tier", "server").alias("count"),
        )
        .filter((pl.col("count") > 0) & (pl.col("us") >= 0))
        .select("tier", "server", "time_s", (pl.col("us") / pl.col("count") / 1e3).alias("ms"))
    )


def servers_over_time(run: RunFolder, size: Size) -> Any:
    series = server_latencies(run)
    names = sorted(series.select("tier", "server").unique().rows())[:PANELS_MAX]
    axes = {tier: _latency_axis(series.filter(pl.col("tier") == tier)) for tier, _ in names}
    panels = []
    for tier, server in names:
        rows = series.filter((pl.col("tier") == tier) & (pl.col("server") == server))
        points = [{"t": t, "v": round(ms, 3)} for t, ms in rows.select("time_s", "ms").iter_rows()]
        panels.append(_panel(run, server, points, axes[tier], size))
    return _grid(panels, size, "mean latency, ms")


def _latency_axis(series: pl.DataFrame) -> Any:
    """Return a log axis for one tier's servers, without the rarest extremes, with few ticks."""
    positive = series.filter(pl.col("ms") > 0)["ms"].to_numpy()
    domain = [0.1, 2.0]
    if positive.size:
        low, high = np.quantile(positive, (0.001, 0.999))
        domain = [max(float(low) * 0.8, 0.01), max(float(high) * 1.2, float(low) * 4)]
    ticks = log_ticks(domain)
    if len(ticks) > 4:
        ticks = [tick for tick in ticks if math.log10(tick) % 1 < 1e-9] or ticks[::3]
    return marks.logarithmic(alt.Y, "v", None, domain, values=ticks)


def hosts_over_time(run: RunFolder, size: Size) -> Any:
    hosts = run.hosts.filter(pl.col("cpu_percent").is_not_null()).sort("machine", "time_s")
    names = sorted(hosts["machine"].unique(), key=by_number)[:PANELS_MAX]
    domain = [0, max(100.0, float(str(hosts["cpu_percent"].max())))]
    y = marks.linear(alt.Y, "v", None, domain, values=[0, 50, 100])
    panels = []
    for machine in names:
        rows = hosts.filter(pl.col("machine") == machine).select("time_s", "cpu_percent")
        points = [{"t": round(t, 1), "v": round(v, 1)} for t, v in rows.iter_rows()]
        panels.append(_panel(run, machine, points, y, size))
    return _grid(panels, size, "CPU, % of the machine's cap")


def _panel(run: RunFolder, machine: str, points: Rows, y: Any, size: Size) -> Any:
    blocks = blocks_of(run)
    domain = time_domain(run, blocks)
    x = marks.linear(alt.X, "t", None, domain, grid=False, tickCount=3)
    machine_disturbances = [w for w in disturbances_of(run) if w.machine == machine]
    strip = [
        {"t": max(b.start_s, domain[0]), "end": min(b.end_s, domain[1]),
         "colour": palette.arm_colour(run.arms, b.arm).light}
        for b in blocks
    ]  # fmt: skip
    arms = (
        alt.Chart(data(strip))
        .mark_rect(y=-5, y2=-1)
        .encode(x=x, x2=alt.X2("end:Q"), fill=marks.FILL)
    )
    inside = [p for p in points if domain[0] <= p["t"] <= domain[1]]
    line = marks.line(inside, x, y, stroke=palette.MARKER.light, strokeWidth=1.2, clip=True)
    title = alt.TitleParams(machine, fontSize=11, offset=9, limit=150)
    gaps = 58 if size.small else 46
    width = (size.width - 24) // size.columns - gaps
    return alt.layer(
        shading(machine_disturbances, domain, x), arms, line, width=width, height=78, title=title
    )


def _grid(panels: list[Any], size: Size, y_title: str) -> Any:
    title = alt.TitleParams(
        y_title + (" against time, s" if size.small else " against time since the run began, s"),
        fontSize=12,
        fontWeight="normal",
        color=palette.TEXT.light,
    )
    return Grid(panels, {"columns": size.columns, "spacing": 14, "title": title.to_dict()})
