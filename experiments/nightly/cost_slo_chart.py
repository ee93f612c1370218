"""Cost against the SLO of planned and measured fleets. Hollow: not valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from core.chart_style import Rows, data
from experiments.nightly.figures import (
    HEIGHT,
    arms_of,
    filled_and_hollow,
    limit_key,
    log_y,
)
from experiments.nightly.history import Run, heads
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.marks import arm_keys, linear


def scatter_figure(
    runs: Sequence[Run],
    front: Sequence[Mapping[str, float]],
    ghost: Sequence[Mapping[str, float]],
    ghost_words: str,
) -> Figure:
    """Cost against p95: the fronts, the plans of all nights, and the fleets that were measured."""
    last = max((run.night for run in runs), default=0)
    steps = [
        {"usd": point["usd_per_month"], "ms": point["p95_ms"], "part": part}
        for part, points in (("now", front), ("ghost", ghost))
        for point in points
    ]
    dots = [
        {"usd": run.plan["usd_per_month"], "ms": run.plan["p95_ms"], "now": run.night == last,
         "kind": "plan", "filled": run.valid, "colour": palette.ARMS[2].light}
        for run in heads(runs) if run.plan.get("usd_per_month") and run.plan.get("p95_ms")
    ]  # fmt: skip
    arms = arms_of(runs)
    dots += [
        {"usd": per_month, "ms": run.p95.ms,
         "now": run.night == last, "kind": "measured", "filled": run.valid,
         "colour": palette.arm_colour(arms, str(run.arm)).light}
        for run in runs
        if run.p95 and run.p95.ms > 0 and (per_month := run.cost.get("usd_per_month"))
    ]  # fmt: skip
    limit = next((run.slo["p95_ms"] for run in reversed(runs) if "p95_ms" in run.slo), None)
    keys = [
        *([Key("line", palette.ARMS[2].light, "front of the newest run")] if front else []),
        *([Key("line", palette.INTERFERENCE.light, ghost_words)] if ghost else []),
        Key("diamond", palette.ARMS[2].light, "planned fleet, predicted"),
        *arm_keys(arms, "circle", arms if any(dot["kind"] == "measured" for dot in dots) else ()),
        *([limit_key("SLO p95")] if limit else []),
    ]
    return drawn(
        "cost-slo",
        "Cost against p95",
        "Down and to the left is better. The front is the least cost of each p95 that fleets are "
        "predicted to reach; circles are fleets that were measured, at the plan's prices, without "
        "arbiters. Large: the newest night. Hollow: not valid.",
        tuple(keys),
        lambda size: _scatter(steps, dots, limit, size),
        "" if steps or dots else "No run has a plan with a price and a p95 yet.",
    )


def _scatter(steps: Rows, dots: Rows, limit: float | None, size: Size) -> Any:
    costs = [row["usd"] for row in (*steps, *dots)]
    latencies = [row["ms"] for row in (*steps, *dots)] + ([limit] if limit else [])
    room = (max(costs) - min(costs) or max(costs)) * 0.06
    domain = [max(0.0, min(costs) - room), max(costs) + room]
    x = linear(alt.X, "usd", "USD a month", domain, tickCount=5 if size.small else 8)
    y = log_y(latencies, "p95, ms (log scale)")("ms")
    colours = alt.Scale(
        domain=["now", "ghost"], range=[palette.ARMS[2].light, palette.INTERFERENCE.light]
    )
    line = alt.Chart(data(steps)).mark_line(interpolate="step-after", strokeWidth=2).encode(
        x=x, y=y, detail=alt.Detail("part:N"), order=alt.Order("usd:Q"),
        stroke=alt.Stroke("part:N", scale=colours, legend=None),
        strokeDash=alt.StrokeDash("part:N", legend=None, scale=alt.Scale(
            domain=["now", "ghost"], range=[[1, 0], [3, 4]])),
    )  # fmt: skip
    base = alt.Chart(data(dots)).encode(
        x=x, y=y,
        shape=alt.Shape("kind:N", legend=None, scale=alt.Scale(
            domain=["plan", "measured"], range=["diamond", "circle"])),
        size=alt.Size("now:N", legend=None, scale=alt.Scale(
            domain=[False, True], range=[36, 130])),
    )  # fmt: skip
    layers = [line, *filled_and_hollow(base)]
    if limit:
        rule = alt.Chart(data([{"ms": limit}])).mark_rule(
            stroke=palette.FAULT.light, strokeDash=[5, 3], strokeWidth=1.6
        )
        layers.insert(0, rule.encode(y=y))
    return alt.layer(*layers).properties(width=size.plot_width, height=HEIGHT + 40)
