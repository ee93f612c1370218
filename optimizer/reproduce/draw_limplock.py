"""The limplock paper's Fig. 3 as curves over the size of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from core.chart_style import LIMIT, Charts, colours, data
from optimizer.limplock import limplock
from optimizer.reproduce.limplock import BLOCKS, PAPER_CLUSTER, REQUESTS, Compared

_SIZES = sorted({round(10 ** (i / 40)) for i in range(28, 161)})  # 5 to 10,000
_TICKS = [5, 10, 20, 30, 50, 100, 200, 500, 1000, 10_000]


def charts(simulated: Sequence[Compared]) -> Charts:
    """Return the figures by file name; the values of `simulated` are drawn as points."""
    return {
        "limplock-fig3a-read": _figure("read", "a user's reads meet limplock", "Fig. 3a"),
        "limplock-fig3b-write": _figure("write", "a user's writes meet limplock", "Fig. 3b"),
        "limplock-fig3c-block": _figure(
            "any_block", "a block of the dead node is in limplock", "Fig. 3c", simulated
        ),
        "limplock-fig3d-cluster": _figure(
            "cluster_regeneration", "all regeneration is in limplock", "Fig. 3d", simulated
        ),
    }


def _figure(name: str, event: str, place: str, simulated: Sequence[Compared] = ()) -> Any:
    varied = "requests" if name in ("read", "write") else "blocks"
    values = REQUESTS if varied == "requests" else BLOCKS
    rows = [
        {
            "x": nodes,
            "y": getattr(limplock(replace(PAPER_CLUSTER, nodes=nodes, **{varied: value})), name),
            "series": f"{value} {varied}",
        }
        for value in values
        for nodes in _SIZES
    ]
    names = [f"{value} {varied}" for value in values]
    base = alt.Chart(data(rows)).encode(
        x=alt.X(
            "x:Q",
            scale=alt.Scale(type="log", domain=[_SIZES[0], _SIZES[-1]], nice=False),
            axis=alt.Axis(title="nodes, one of them limping", values=_TICKS, format="~g"),
        ),
        y=alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(title="probability")),
        color=alt.Color("series:N", scale=colours(names), legend=alt.Legend(title=None)),
    )
    layers = [base.mark_line(strokeWidth=2), *_points(name, simulated)]
    subtitle = f"Limplock paper, Table 2 and {place}"
    if simulated:
        subtitle += (
            f"; rings: the protocol simulated, {PAPER_CLUSTER.blocks} blocks, 95 % intervals"
        )
    return alt.layer(*layers).properties(
        width=420,
        height=280,
        title=alt.Title(f"Probability that {event}", subtitle=subtitle),
    )


def _points(name: str, simulated: Sequence[Compared]) -> list[Any]:
    if not simulated:
        return []
    estimates = [
        (comparison.cluster.nodes, getattr(comparison.in_turn, name)) for comparison in simulated
    ]
    rows = [{"x": n, "y": e.value, "low": e.low, "high": e.high} for n, e in estimates]
    base = alt.Chart(data(rows)).encode(x=alt.X("x:Q"))
    return [
        base.mark_rule(color=LIMIT).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_point(color=LIMIT, size=40, strokeWidth=2).encode(y=alt.Y("y:Q")),
    ]
