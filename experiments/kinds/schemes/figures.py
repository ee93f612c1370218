"""Fail-overs in their parts, and the number of serving machines of each tier over time."""

from __future__ import annotations

from typing import Any

import altair as alt

from core.chart_style import Rows, data
from core.json_object import JsonObject
from core.runfiles.events import Window, of_kind
from experiments.kinds.compare.figures_time import blocks_of, time_domain
from experiments.kinds.compare.folder import RunFolder
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.text import number

SHOWN_MAX = 40
_WAITS = ("wait_s", "pool_wait_s", "repair_s")
# stages of a fail-over's bar, in order: name, parts of the record, colour
STAGES = (
    ("detection", ("detection_s",), palette.FAULT),
    ("told out, fenced", ("told_out_s", "fence_s"), palette.INTERFERENCE),
    ("waiting or under repair", _WAITS, palette.GRID),
    ("boot time", ("boot_s",), palette.ARMS[1]),
    ("start", ("start_s",), palette.ARMS[0]),
    ("readiness", ("readiness_s",), palette.ARMS[2]),
    ("arbiter told", ("told_s",), palette.ARMS[3]),
)


def failovers_of(run: RunFolder) -> list[JsonObject]:
    """Return the run's fail-overs that came to their end, in order of time."""
    return list((run.summary.get("strength") or {}).get("failovers") or [])


def failover_parts(run: RunFolder, size: Size) -> Any:
    """Return a bar for each fail-over, from the crash on."""
    bars = []
    for index, failover in enumerate(failovers_of(run)[:SHOWN_MAX]):
        is_same = failover["replacement"] == failover["machine"]
        arrow = "" if is_same else f" → {failover['replacement']}"
        parts = [(colour.light, sum(float(failover.get(key) or 0.0) for key in keys))
                 for _, keys, colour in STAGES]  # fmt: skip
        bars.append((f"{index + 1}. {failover['machine']}{arrow}", parts))
    axis = alt.Axis(title="seconds since the machine was down", tickCount=5 if size.small else 10)
    x = alt.X("start:Q", axis=axis)
    return marks.stacked_bars(bars, x, size, step=17, labels=90)


def members_over_time(run: RunFolder, size: Size) -> Any:
    """Chart the serving machines of each tier as steps, beside the needed number."""
    blocks = blocks_of(run)
    domain = time_domain(run, blocks)
    tiers = (run.summary.get("strength") or {}).get("tiers") or {}
    panels = [
        _panel(run, tier, entry, blocks, domain, size, last=index == len(tiers) - 1)
        for index, (tier, entry) in enumerate(tiers.items())
    ]
    return alt.vconcat(*panels, spacing=8)


def _panel(
    run: RunFolder,
    tier: str,
    entry: JsonObject,
    blocks: list[Window],
    domain: list[float],
    size: Size,
    *,
    last: bool,
) -> Any:
    served = [w for w in of_kind(run.windows, "member") if w.kind == tier]
    rows = [row for block in blocks for row in _steps(served, block)]
    top = max([int(entry["nodes"]), *(row["v"] for row in rows)])
    title = "time since the run began, s" if last else None
    x = marks.linear(alt.X, "t", title, domain, grid=False, labels=last)
    y = marks.linear(alt.Y, "v", f"{tier}: machines that serve", [0, top + 0.4],
                     values=list(range(top + 1)), format="d")  # fmt: skip
    served_line = marks.line(
        rows, x, y, interpolate="step-after", stroke=palette.ARMS[0].light, strokeWidth=1.8
    ).encode(detail=alt.Detail("block:N"))
    needed = (
        alt.Chart(data([{"v": entry["needed"]}]))
        .mark_rule(stroke=palette.FAULT.light, strokeDash=[5, 4])
        .encode(y=y)
    )
    return alt.layer(needed, served_line).properties(width=size.plot_width, height=130)


def _steps(served: list[Window], block: Window) -> Rows:
    block_windows = [w for w in served if w.repeat == block.repeat]
    inner = {
        t for w in block_windows for t in (w.start_s, w.end_s) if block.start_s < t < block.end_s
    }
    times = sorted({block.start_s, block.end_s, *inner})
    return [
        {
            "t": round(t, 3),
            "v": sum(_serves(w, t, block) for w in block_windows),
            "block": block.repeat,
        }
        for t in times
    ]


def _serves(window: Window, at_s: float, block: Window) -> bool:
    """Machines that serve up to the block's end count as serving at it."""
    return window.start_s <= at_s and (at_s < window.end_s or window.end_s >= block.end_s)


def failover_figure(run: RunFolder) -> Figure:
    count = len(failovers_of(run))
    caption = (
        f"{number(count)} fail-overs in the order in which they ended, each from the moment that "
        "its machine was down until its tier was told of the machine that serves instead."
    )
    if count > SHOWN_MAX:
        caption += f" The first {SHOWN_MAX} are shown."
    legend = tuple(Key("box", colour.light, name) for name, _, colour in STAGES)
    note = "" if count else "No fail-over came to its end."
    return drawn(
        "failovers", "Fail-overs", caption, legend, lambda size: failover_parts(run, size), note
    )


def strength_figure(run: RunFolder) -> Figure:
    tiers = (run.summary.get("strength") or {}).get("tiers") or {}
    caption = (
        "Machines of each tier that serve: from when its arbiter knows of them until they crash or "
        "are lost. Full strength is at or above the dashed line."
    )
    legend = (
        Key("line", palette.ARMS[0].light, "machines that serve"),
        Key("line", palette.FAULT.light, "needed"),
    )
    note = "" if tiers else "The design has no [failover]."
    return drawn(
        "members",
        "Strength over time",
        caption,
        legend,
        lambda size: members_over_time(run, size),
        note,
    )
