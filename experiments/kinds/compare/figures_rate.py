"""The figure of a load whose rate varies: requested and sent rate over a block."""

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
    """Chart the arrivals a second over a block, the mean of all blocks; None at a steady rate."""
    load = run.spec.get("load") or {}
    if not (load.get("stages") or load.get("trace")):
        return None
    offsets, blocks = _offsets(run)
    note = "" if offsets.size else "No block's start was recorded, so there is nothing to draw."
    offered = [] if load.get("trace") else _offered_rate(run.spec)
    caption = (
        f"Requests a second by their intended start{_blocks_text(blocks)}; steps of sessions count "
        "where they were sent."
    )
    legend = [Key("line", palette.INTERFERENCE.light, "asked")] if offered else []
    legend.append(Key("line", palette.MARKER.light, "sent"))
    return drawn(
        "rate", "The rate over a block", caption, tuple(legend),
        lambda size: _drawing(offsets, blocks, offered, size), note,
    )  # fmt: skip


def _blocks_text(blocks: int) -> str:
    return f", the mean of {number(blocks)} blocks" if blocks > 1 else ""


def _offsets(run: RunFolder) -> tuple[np.ndarray[Any, Any], int]:
    """Return each request's seconds since the start of its block, and the number of blocks."""
    blocks = (run.manifest.get("load") or {}).get("blocks") or []
    starts = {
        block["repeat"]: block["start_s"] for block in blocks if block.get("start_s") is not None
    }
    block_offsets = [
        rows["intended_s"].drop_nulls().to_numpy() - starts[repeat]
        for (repeat,), rows in run.requests.group_by("repeat")
        if repeat in starts
    ]
    return (np.concatenate(block_offsets) if block_offsets else np.empty(0)), len(block_offsets)


def _offered_rate(spec: Mapping[str, Any]) -> list[dict[str, float]]:
    load = spec["load"]
    stages = [Stage.model_validate(stage) for stage in load["stages"]]
    at_s, points = 0.0, []
    for piece in pieces(float(spec["phases"]["warm_up"]), float(load["rate_per_s"]), stages):
        points += [
            {"t": at_s, "value": piece.begin_per_s},
            {"t": at_s + piece.length_s, "value": piece.end_per_s},
        ]
        at_s += piece.length_s
    return points


def _drawing(
    offsets: np.ndarray[Any, Any], blocks: int, offered: list[dict[str, float]], size: Size
) -> Any:
    end_s = max([float(offsets.max()), *(point["t"] for point in offered)])
    counts, edges = np.histogram(offsets, bins=_BINS, range=(0.0, max(end_s, 1e-3)))
    width_s = float(edges[1] - edges[0])
    sent = [
        {"t": float(edge), "value": float(count / width_s / blocks)}
        for edge, count in zip(edges, [*counts, counts[-1]], strict=True)
    ]
    most = 1.1 * max(point["value"] for point in [*sent, *offered])
    x = marks.linear(alt.X, "t", "time since the block began, s", [0, end_s], tickCount=8)
    y = marks.linear(alt.Y, "value", "requests per second", [0, most], tickCount=5)
    stroke = palette.INTERFERENCE.light
    layers = [marks.line(offered, x, y, stroke=stroke, strokeWidth=3)] if offered else []
    look = {"stroke": palette.MARKER.light, "strokeWidth": 1.4, "interpolate": "step-after"}
    layers.append(marks.line(sent, x, y, **look))
    return alt.layer(*layers, width=size.plot_width, height=_HEIGHT)
