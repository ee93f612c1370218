"""A schedule as SVG: machines by the hour and by purchase option, beside the load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from core.chart_style import BLUE, GREEN, LIMIT, ORANGE, Row, data, svg

_WIDTH, _HEIGHT = 760, 300
WAYS = {"reserved": "reserved", "on_demand": "on demand", "spot": "spot"}


def schedule_svg(body: Mapping[str, Any]) -> str:
    """Draw the schedule of plan.json. Raises ValueError without hours."""
    saved = body["saved_usd_per_month"]
    saving = f"{abs(saved):.2f} {'less' if saved >= 0 else 'more'} than the standing fleet"
    title = alt.Title(
        "Machines by the hour",
        subtitle=f"{body['usd_per_month']:.2f} USD a month, {saving}; dashed: "
        "reserved machines paid",
    )
    return svg(schedule_chart(body, _WIDTH, _HEIGHT).properties(title=title))


def schedule_chart(body: Mapping[str, Any], width: int, height: int) -> Any:
    """Return the chart: a bar per hour, and the load as a line with an axis of its own."""
    rows = body.get("by_hour") or []
    if not rows:
        raise ValueError("a schedule needs hours")
    bars = [bar for row in rows for bar in _stacked(row)]
    used = [name for name in WAYS.values() if any(bar["way"] == name for bar in bars)]
    scale = alt.Scale(
        domain=used,
        range=[dict(zip(WAYS.values(), (BLUE, ORANGE, GREEN), strict=True))[name] for name in used],
    )
    step = 24 if len(rows) > 48 else 3
    axis = alt.Axis(title="hour", values=list(range(0, len(rows) + 1, step)), grid=False)
    x = alt.X("hour:Q", axis=axis, scale=alt.Scale(domain=[0, len(rows)], nice=False))
    machines = alt.Chart(data(bars)).mark_bar(opacity=0.8).encode(
        x=x,
        x2=alt.X2("end:Q"),
        y=alt.Y("low:Q", axis=alt.Axis(title="machines", tickMinStep=1)),
        color=alt.Color("way:N", scale=scale, legend=alt.Legend(title=None, orient="top")),
        y2=alt.Y2("high:Q"),
    )  # fmt: skip
    bought = alt.Chart(data([{"bought": rows[0]["bought"]}])).mark_rule(
        color=BLUE, strokeDash=[5, 4], strokeWidth=1.5
    )
    ends = [{"hour": row["hour"] + edge, "per_s": row["per_s"]} for row in rows for edge in (0, 1)]
    load = alt.Chart(data([{**end, "n": n} for n, end in enumerate(ends)])).mark_line(
        color=LIMIT, strokeWidth=2
    )
    layers = [machines, *([bought.encode(y=alt.Y("bought:Q"))] if rows[0]["bought"] else [])]
    left = alt.layer(*layers)
    right = load.encode(
        x=x,
        y=alt.Y(
            "per_s:Q",
            axis=alt.Axis(title="load, pages/s", titleColor=LIMIT, grid=False),
            scale=alt.Scale(zero=True),
        ),
        order=alt.Order("n:Q"),
    )
    chart = alt.layer(left, right).resolve_scale(y="independent")
    return chart.properties(width=width, height=height)


def _stacked(row: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the machines of an hour, stacked by purchase option."""
    low = 0
    for key, name in WAYS.items():
        if row[key]:
            high = low + row[key]
            yield {
                "hour": row["hour"],
                "end": row["hour"] + 1,
                "way": name,
                "low": low,
                "high": high,
            }
            low = high
