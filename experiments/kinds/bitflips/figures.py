"""Outcome bars, a bar for each variant of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from core.chart_style import Rows, data
from experiments.kinds.bitflips.inject import OUTCOMES
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size

# correct, corrected, detected, crash, hang, silent: the worst has the colour of faults
_COLOURS = (
    palette.INTERFERENCE.light, palette.ARMS[2].light, palette.ARMS[0].light,
    palette.ARMS[1].light, palette.ARMS[3].light, palette.FAULT.light,
)  # fmt: skip


def outcome_figure(
    identity: str, title: str, rows: Sequence[Mapping[str, Any]], label: str
) -> Figure:
    """Shares of outcomes, stacked; `label`: the field that names a bar."""
    bars = []
    for row in rows:
        start = 0.0
        for outcome, colour in zip(OUTCOMES, _COLOURS, strict=True):
            share = 100.0 * (row["shares"][outcome] or 0.0)
            bars.append({"bar": row[label], "start": start, "end": start + share, "colour": colour})
            start += share
    counts = ", ".join(f"{row[label]} {row['injections']:,}" for row in rows)
    caption = f"Shares of all injections ({counts})."
    legend = tuple(
        Key("box", colour, name) for name, colour in zip(OUTCOMES, _COLOURS, strict=True)
    )
    return drawn(identity, title, caption, legend, lambda size: _bars(bars, size))


def _bars(bars: Rows, size: Size) -> Any:
    names = list(dict.fromkeys(bar["bar"] for bar in bars))
    return (
        alt.Chart(data(bars))
        .mark_bar(size=16)
        .encode(
            x=alt.X(
                "start:Q",
                scale=alt.Scale(domain=[0, 100]),
                axis=alt.Axis(title="share of injections, %", tickCount=5),
            ),
            x2="end:Q",
            y=alt.Y("bar:N", sort=names, axis=alt.Axis(title=None)),
            color=alt.Color("colour:N", scale=None),
        )
        .properties(width=size.plot_width - 40, height=26 * len(names))
    )
