"""Outcome bars, a bar for each variant of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from experiments.kinds.bitflips.inject import OUTCOMES
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn

# correct, corrected, detected, crash, hang, silent: the worst has the colour of faults
_COLOURS = dict(zip(OUTCOMES, (
    palette.INTERFERENCE.light, palette.ARMS[2].light, palette.ARMS[0].light,
    palette.ARMS[1].light, palette.ARMS[3].light, palette.FAULT.light,
), strict=True))  # fmt: skip


def outcome_figure(identity: str, title: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    bars = [
        (row["variant"], [(colour, 100.0 * (row["shares"][outcome] or 0.0))
                          for outcome, colour in _COLOURS.items()])
        for row in rows
    ]  # fmt: skip
    counts = ", ".join(f"{row['variant']} {row['injections']:,}" for row in rows)
    caption = f"{title}: shares of all injections ({counts})."
    legend = tuple(Key("box", colour, name) for name, colour in _COLOURS.items())
    x = marks.linear(alt.X, "start", "share of injections, %", [0, 100], tickCount=5)
    return drawn(identity, title, caption, legend, lambda size: marks.stacked_bars(bars, x, size))
