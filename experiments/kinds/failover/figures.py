"""Fail-overs over time (the paper's Fig. 1 to 12), their parts (its pies), their distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from core.chart_style import Rows, data
from experiments.kinds.failover.client import PARTS
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

_TITLES = ("detection", "waiting", "naming service", "lock", "connecting", "call again")
_PART_COLOURS = (
    palette.FAULT.light, palette.INTERFERENCE.light, *(arm.light for arm in palette.ARMS)
)  # fmt: skip
_LATENCY = palette.ARMS[0].light
_STRUCK = palette.FAULT.light
_BIN_S = 0.25
_LEAST_MS = 0.1


def timeline_figure(
    identity: str,
    title: str,
    invocations: pl.DataFrame,
    strike_records: Sequence[Mapping[str, Any]],
) -> Figure:
    """Return the longest call of each quarter of a second, and the strikes."""
    if not invocations.height:
        return Figure(identity, title, "", (), {}, "Nothing was invoked.")
    zero_s = float(invocations["start_s"].min())  # type: ignore[arg-type]
    bins = ((pl.col("start_s") - zero_s) / _BIN_S).floor() * _BIN_S
    longest = invocations.group_by(bins.alias("t")).agg(pl.col("latency_ms").max()).sort("t")
    rows = [{"t": t, "ms": max(ms, _LEAST_MS)} for t, ms in longest.iter_rows()]
    strikes = [{"t": strike["asked_s"] - zero_s} for strike in strike_records]
    caption = (
        f"{title}: the longest of the calls that began in each {_BIN_S:g} s, of "
        f"{invocations.height:,}; vertical: a server was struck."
    )
    legend = (Key("circle", _LATENCY, "longest call"), Key("line", _STRUCK, "strike"))
    return drawn(identity, title, caption, legend, lambda size: _timeline(rows, strikes, size))


def _timeline(rows: Rows, strike_rows: Rows, size: Size) -> Any:
    top = max(row["ms"] for row in rows) * 1.4
    domain = [min(row["ms"] for row in rows) * 0.7, top]
    x = alt.X("t:Q", axis=alt.Axis(title="time, s", tickCount=8, grid=False))
    y = marks.logarithmic(alt.Y, "ms", "call, ms (log scale)", domain)
    strikes = alt.Chart(data(strike_rows)).mark_rule(color=_STRUCK, opacity=0.5).encode(x=x)
    points = alt.Chart(data(rows)).mark_circle(color=_LATENCY, size=14, opacity=0.9)
    return alt.layer(strikes, points.encode(x=x, y=y)).properties(width=size.plot_width, height=150)


def parts_figure(fault: str, rows: Sequence[Mapping[str, Any]], identity: str) -> Figure:
    """Return a stacked bar for each strategy: the mean of each part."""
    title = f"{fault}: where the time went"
    bars = [
        (f"{row['arm']}, {row['clients']}",
         [(colour, row["parts_ms"][part] or 0.0)
          for part, colour in zip(PARTS, _PART_COLOURS, strict=True)])
        for row in rows
    ]  # fmt: skip
    if not any(ms for _, parts in bars for _, ms in parts):
        return Figure(identity, title, "", (), {}, "There was no fail-over.")
    caption = "Means of the parts, over the longest fail-over of each strike and client."
    legend = tuple(
        Key("box", colour, name) for name, colour in zip(_TITLES, _PART_COLOURS, strict=True)
    )
    x = alt.X("start:Q", axis=alt.Axis(title="mean of a fail-over, ms", tickCount=6))
    return drawn(identity, title, caption, legend, lambda size: marks.stacked_bars(bars, x, size))


def distribution_figure(
    fault: str, longest_failovers: pl.DataFrame, arms: Sequence[str], bound_s: float, identity: str
) -> Figure:
    """Return the share of strikes whose fail-over was not longer."""
    title = f"{fault}: distribution of fail-over times"
    rows = []
    for arm in arms:
        worst = longest_failovers.filter(arm=arm).group_by("strike").agg(pl.col("latency_ms").max())
        times = sorted(worst["latency_ms"].to_list())
        colour = palette.arm_colour(arms, arm).light
        rows += [
            {"ms": max(ms, _LEAST_MS), "share": (k + 1) / len(times), "arm": arm,
             "colour": colour}
            for k, ms in enumerate(times)
        ]  # fmt: skip
    if not rows:
        return Figure(identity, title, "", (), {}, "There was no fail-over.")
    counts = ", ".join(f"{arm} {sum(r['arm'] == arm for r in rows)}" for arm in arms)
    caption = f"Each point is a strike, its slowest client ({counts}). Vertical: {bound_s:g} s."
    return drawn(
        identity, title, caption, marks.arm_keys(arms),
        lambda size: _distribution(rows, arms, bound_s, size),
    )  # fmt: skip


def _distribution(rows: Rows, arms: Sequence[str], bound_s: float, size: Size) -> Any:
    low = 10 ** math.floor(math.log10(min(row["ms"] for row in rows)))
    domain = [low, max(max(row["ms"] for row in rows), 1e3 * bound_s) * 1.4]
    x = marks.logarithmic(alt.X, "ms", "fail-over, ms (log scale)", domain)
    y = marks.linear(alt.Y, "share", "share not longer", [0, 1.02])
    layers = [marks.rule([{"ms": 1e3 * bound_s}], x=x)]
    for arm in arms:
        arm_rows = [row for row in rows if row["arm"] == arm]
        if arm_rows:
            colour, shape = arm_rows[0]["colour"], palette.arm_shape(arms, arm)
            base = alt.Chart(data(arm_rows)).encode(x=x, y=y)
            layers.append(base.mark_line(color=colour, interpolate="step-after", strokeWidth=1.2))
            layers.append(base.mark_point(color=colour, shape=shape, filled=True, size=26))
    return alt.layer(*layers).properties(width=size.plot_width, height=240)
