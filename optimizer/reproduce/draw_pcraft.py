"""PCRAFT's Fig. 5, 6 and 7, drawn from the models."""

from __future__ import annotations

from typing import Any

import altair as alt

from core.chart_style import AXIS, BLUE, ORANGE, Charts, Rows, colours, data, nines_axis
from core.vocabulary import Scheme
from optimizer.integrity import integrity
from optimizer.reproduce.draw_measured import figure_7_measured, log_axes
from optimizer.reproduce.published import published
from optimizer.reproduce.ranges import (
    CLOUD_S,
    FIGURE_6_NODES,
    integrity_nodes,
    unavailability,
)

_RATES = (1.0, 2.0, 6.0)
_DASHES = [[1, 0], [1, 0], [1, 0], [6, 5]]
_STATES = {"correct": BLUE, "corrupt": ORANGE, "down": AXIS}


def charts() -> Charts:
    """Return the figures by file name."""
    return {
        "pcraft-fig5": figure_5(),
        "pcraft-fig6": figure_6(),
        "pcraft-fig7": figure_7(),
        "pcraft-fig7-log": figure_7_log(),
        "pcraft-fig7-measured": figure_7_measured(),
    }


def figure_5() -> Any:
    """Availability of one node against its crash rate."""
    paper = published("pcraft")["figure_5"]
    low, high = paper["crash_per_year"]
    names = {f"cloud, fail-over {s} s": float(s) for s in paper["failover_s"]}
    rows = [
        {"rate": rate, "series": name, "u": unavailability(1, float(rate), failover_s)}
        for name, failover_s in {**names, "on-premises, no spare": None}.items()
        for rate in range(low, high + 1)
    ]
    line = _lines(rows, "rate", "crashes per node and year", [low, high], nines_axis(1, 3e-7))
    return line.properties(
        width=520,
        height=340,
        title=alt.Title(
            "One node over a year",
            subtitle="PCRAFT Fig. 5, from the models; no extra nodes; logarithmic in downtime",
        ),
    )


def figure_6() -> Any:
    """Availability of a cluster without spares against its number of nodes."""
    panels = []
    for scheme, worst, best in (("cloud", 2e-3, 3e-7), ("on-prem", 1.0, 0.2)):
        failover_s = CLOUD_S if scheme == Scheme.cloud else None
        rows = [
            {"nodes": n, "series": f"{rate:g} a year", "u": unavailability(n, rate, failover_s)}
            for rate in _RATES
            for n in FIGURE_6_NODES
        ]
        if scheme == Scheme.cloud:
            y, title = nines_axis(worst, best), "cloud, fail-over 15 s"
        else:
            rows = [{**row, "u": 100 * (1 - row["u"])} for row in rows]
            y = alt.Y(
                "u:Q",
                scale=alt.Scale(type="log", domain=[0.1, 100]),
                axis=alt.Axis(
                    title="availability over a year, % (log scale)",
                    values=[0.1, 1, 10, 100],
                    format="~g",
                ),
            )
            title = "on-premises, no spare"
        line = _lines(rows, "nodes", "nodes, all needed", [0, FIGURE_6_NODES[-1]], y)
        panels.append(line.properties(width=330, height=300, title=title))
    return alt.hconcat(*panels).properties(
        title=alt.Title(
            "A cluster that needs all its nodes, over a year",
            subtitle="PCRAFT Fig. 6, from the models; 6 a year as printed, and 2, near the "
            "one per 183 days that its tables fit",
        )
    )


def figure_7() -> Any:
    """Stacked shares of a month in each state, for both ranges of faults."""
    rows = _integrity_rows()
    colour = alt.Color(
        "state:N",
        scale=alt.Scale(domain=list(_STATES), range=list(_STATES.values())),
        legend=alt.Legend(title=None, orient="top"),
    )
    panels = []
    for unit, node in _panels():
        chosen = [r for r in rows if r["unit"] == unit and r["node"] == node]
        bars = (
            alt.Chart(data(chosen))
            .mark_bar()
            .encode(
                x=_faults_axis(unit, [r["faults"] for r in chosen]),
                y=alt.Y(
                    "percent:Q",
                    stack="zero",
                    scale=alt.Scale(domain=[0, 100], nice=False),
                    axis=alt.Axis(title="share of a month, %"),
                ),
                color=colour,
                order=alt.Order("place:Q"),
            )
        )
        panels.append(bars.properties(width=190, height=190, title=node))
    return alt.concat(*panels, columns=4).properties(
        title=alt.Title(
            "Where a node spends a month under transient faults",
            subtitle=[
                "PCRAFT Fig. 7, from the models, cloud; ft_tx with the corruption probability "
                "printed in Table I and with the one that gives the text's numbers.",
                "What is too thin to see is in pcraft-fig7-log.",
            ],
        )
    )


def figure_7_log() -> Any:
    """Time corrupt and time down on log axes, where the small shares can be told apart."""
    rows = [r for r in _integrity_rows() if r["state"] != "correct"]
    panels = []
    for state in ("corrupt", "down"):
        chosen = [
            {"faults": r["per_month"], "series": r["node"], "percent": r["percent"]}
            for r in rows
            if r["state"] == state
        ]
        points = (
            alt.Chart(data(chosen))
            .mark_line(strokeWidth=2)
            .encode(
                **log_axes(state, 700, [1, 3, 10, 30, 100, 300, 660]),
                color=alt.Color(
                    "series:N", scale=colours(integrity_nodes()), legend=alt.Legend(title=None)
                ),
                strokeDash=alt.StrokeDash(
                    "series:N",
                    scale=alt.Scale(domain=list(integrity_nodes()), range=_DASHES),
                    legend=None,
                ),
            )
        )
        panels.append(points.properties(width=330, height=280, title=state))
    return alt.hconcat(*panels).properties(
        title=alt.Title(
            "Time corrupt and time down under transient faults",
            subtitle="The same as Fig. 7, on log axes: ft_tx trades crashes for retries",
        )
    )


def _integrity_rows() -> Rows:
    ends = published("pcraft")["figure_7_corrupt_percent_of_month"]["faults_per_month"]
    rows = []
    for unit, (low, high) in ends.items():
        for node, outcomes in integrity_nodes().items():
            for per_month in range(low, high + 1, low):
                shares = integrity(outcomes, float(per_month))
                for index, state in enumerate(_STATES):
                    row = {"unit": unit, "node": node, "state": state, "place": index}
                    percent = 100 * getattr(shares, state)
                    rows.append(
                        {**row, "faults": per_month // low, "per_month": per_month,
                         "percent": percent}
                    )  # fmt: skip
    return rows


def _panels() -> list[tuple[str, str]]:
    return [(unit, node) for unit in ("month", "day") for node in integrity_nodes()]


def _faults_axis(unit: str, faults: list[int]) -> Any:
    return alt.X(
        "faults:O",
        axis=alt.Axis(
            title=f"transient faults per {unit}",
            values=[f for f in faults if f == 1 or f % 5 == 0],
            labelAngle=0,
        ),
    )


def _lines(rows: Rows, field: str, title: str, ends: list[float], y: Any) -> Any:
    names = list(dict.fromkeys(row["series"] for row in rows))
    x = alt.X(
        f"{field}:Q",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(title=title, tickMinStep=1),
    )
    colour = alt.Color("series:N", scale=colours(names), legend=alt.Legend(title=None))
    base = alt.Chart(data(rows)).encode(x=x, y=y, color=colour)
    return alt.layer(
        base.mark_line(strokeWidth=2), base.mark_point(size=22, filled=True, opacity=1)
    )
