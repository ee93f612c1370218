"""Fig. 7 on log axes, with the paper's probabilities and with ours."""

from __future__ import annotations

from typing import Any

import altair as alt

from core.chart_style import BLUE, GREEN, ORANGE, Rows, data
from optimizer.reproduce.measured import FAULTS_PER_MONTH, Row, rows

_PAPER, _HERE, _MOST = "the paper", "here", "here, at most (95 %)"
_WAYS = {_PAPER: [6, 4], _HERE: [1, 0], _MOST: [2, 2]}
_COLOURS = {"native": ORANGE, "ft_ilr: ilr": BLUE, "ft_tx: log": GREEN}


def figure_7_measured() -> Any:
    """Draw the time corrupt and the time down, with the paper's Table I and with our injections."""
    month_rows = list(rows())
    panels = [_panel(month_rows, state) for state in ("corrupt", "down")]
    return alt.hconcat(*panels).properties(
        title=alt.Title(
            "Fig. 7 with the paper's probabilities and with measured ones",
            subtitle=[
                "One node in the cloud. Here: 12,000 injections into six kernels per variant; log "
                "retries in software, ft_tx in hardware transactions.",
                "Nothing was corrupt in ilr and log: their upper bound is the same line.",
            ],
        )
    )


def log_axes(state: str, faults_most: float, ticks: list[int]) -> dict[str, Any]:
    """Return the axes of Fig. 7 that show small shares: `faults` a month, `percent` of a month."""
    return {
        "x": alt.X(
            "faults:Q",
            scale=alt.Scale(type="log", domain=[1, faults_most], nice=False),
            axis=alt.Axis(
                title="transient faults per node and 30 days (log scale)", values=ticks, format="~g"
            ),
        ),
        "y": alt.Y(
            "percent:Q",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(
                title=f"share of a month {state}, % (log scale)",
                values=[10.0**e for e in range(-5, 3)],
                format="~g",
            ),
        ),
    }


def _panel(month_rows: list[Row], state: str) -> Any:
    points = [point for row in month_rows for point in _points(row, state)]
    base = alt.Chart(data(points)).encode(
        **log_axes(state, FAULTS_PER_MONTH[-1], [1, 3, 10, 30, 100, 300]),
        color=alt.Color(
            "node:N",
            scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
            legend=alt.Legend(title=None),
        ),
        strokeDash=alt.StrokeDash(
            "way:N",
            scale=alt.Scale(domain=list(_WAYS), range=list(_WAYS.values())),
            legend=alt.Legend(title=None),
        ),
    )
    return base.mark_line(strokeWidth=2).properties(width=330, height=280, title=state)


def _points(row: Row, state: str) -> Rows:
    """Return the share by each source that has one; a share of zero has no place on a log axis."""
    ways = {_PAPER: getattr(row, f"{state}_paper"), _HERE: getattr(row, state)}
    if state == "corrupt" and row.corrupt == 0.0:
        ways[_MOST] = row.corrupt_most
    name = row.name if row.name == row.paper_name else f"{row.paper_name}: {row.name}"
    return [
        {"faults": row.faults_per_month, "node": name, "way": way, "percent": percent}
        for way, percent in ways.items()
        if percent > 0.0
    ]
