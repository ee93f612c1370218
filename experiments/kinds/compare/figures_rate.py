"""The figure of a load whose rate varies: asked beside sent, over a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np

from experiments.design.arrival_rate import Stage, pieces
from experiments.kinds.compare.folder import RunFolder
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.text import number

_BINS = 60
_HEIGHT = 200


def rate_figure(run: RunFolder) -> Figure | None:
    """Arrivals a second over the time of a block, of all blocks together; None at a steady rate."""
    load = run.spec.get("load") or {}
    if not (load.get("stages") or load.get("trace")):
        return None
    offsets, blocks = _offsets(run)
    note = "" if offsets.size else "No block's start was recorded, so there is nothing to draw."
    asked = [] if load.get("trace") else _offered_rate(run.spec)
    caption = (
        f"Requests a second by their intended start{_mean_of(blocks)}; steps of sessions count "
        "where they were sent."
    )
    legend = [Key("line", palette.INTERFERENCE.light, "asked")] if asked else []
    legend.append(Key("line", palette.MARKER.light, "sent"))
    return drawn(
        "rate", "The rate over a block", caption, tuple(legend),
        lambda size: _drawing(offsets, blocks, asked, size), note,
    )  # fmt: skip


def _mean_of(blocks: int) -> str:
    return f", the mean of {number(blocks)} blocks" if blocks > 1 else ""


def _offsets(run: RunFolder) -> tuple[np.ndarray[Any, Any], int]:
    """Seconds from each request's block's start; and how many blocks there are."""
    kept = (run.manifest.get("load") or {}).get("blocks") or []
    starts = {one["repeat"]: one["start_s"] for one in kept if one.get("start_s") is not None}
    found = [
        rows["intended_s"].drop_nulls().to_numpy() - starts[repeat]
        for (repeat,), rows in run.requests.group_by("repeat")
        if repeat in starts
    ]
    return (np.concatenate(found) if found else np.empty(0)), len(found)


def _offered_rate(spec: Mapping[str, Any]) -> list[dict[str, float]]:
    load = spec["load"]
    stages = [Stage.model_validate(one) for one in load["stages"]]
    at_s, found = 0.0, []
    for one in pieces(float(spec["phases"]["warm_up"]), float(load["rate_per_s"]), stages):
        found += [
            {"t": at_s, "value": one.begin_per_s},
            {"t": at_s + one.length_s, "value": one.end_per_s},
        ]
        at_s += one.length_s
    return found


def _drawing(
    offsets: np.ndarray[Any, Any], blocks: int, asked: list[dict[str, float]], size: Size
) -> Any:
    end_s = max([float(offsets.max()), *(one["t"] for one in asked)])
    counts, edges = np.histogram(offsets, bins=_BINS, range=(0.0, max(end_s, 1e-3)))
    width_s = float(edges[1] - edges[0])
    sent = [
        {"t": float(edge), "value": float(count / width_s / blocks)}
        for edge, count in zip(edges, [*counts, counts[-1]], strict=True)
    ]
    most = 1.1 * max(one["value"] for one in [*sent, *asked])
    x = marks.linear(alt.X, "t", "time since the block began, s", [0, end_s], tickCount=8)
    y = marks.linear(alt.Y, "value", "requests per second", [0, most], tickCount=5)
    stroke = palette.INTERFERENCE.light
    layers = [marks.line(asked, x, y, stroke=stroke, strokeWidth=3)] if asked else []
    look = {"stroke": palette.MARKER.light, "strokeWidth": 1.4, "interpolate": "step-after"}
    layers.append(marks.line(sent, x, y, **look))
    return alt.layer(*layers, width=size.plot_width, height=_HEIGHT)
