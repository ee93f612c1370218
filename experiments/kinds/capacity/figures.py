"""Throughput against latency and against CPU, as in PCRAFT Fig. 3 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from core.chart_style import Rows
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.text import number

_LATENCIES = (
    ("p50_ms", "p50", palette.ARMS[0].light, "circle"),
    ("p95_ms", "p95", palette.ARMS[1].light, "triangle-up"),
    ("p99_ms", "p99", palette.ARMS[3].light, "diamond"),
)
_EDGE: Mapping[str, Any] = {"stroke": palette.PAPER.light, "strokeWidth": 0.8}
_CPU_LOOKS = (
    (palette.ARMS[0].light, "circle"),
    (palette.ARMS[2].light, "square"),
    (palette.ARMS[1].light, "triangle-up"),
    (palette.ARMS[3].light, "diamond"),
)


def latency_figure(user: str, workload: Mapping[str, Any]) -> Figure:
    """Return each step's percentiles against its answers per second, the limit, NodT and its
    interval.
    """
    steps = [step for step in workload["steps"] if step["requests"]]
    title = f"{user}: latency against throughput"
    identity = f"{user}-latency"
    if not steps:
        return Figure(identity, title, "", (), {}, "No step was measured.")
    requests = sum(step["requests"] for step in steps)
    nodt = workload["nodt_per_s"]
    caption = (
        f"Each point is one step of one sweep ({len(steps)} steps, {number(requests)} requests): "
        f"its percentile against the answers per second that it got. Dashed: the limit of p95, "
        f"{workload['limit_ms']:g} ms."
    )
    if nodt is not None:
        caption += f" Vertical: NodT, {number(nodt['value'])}/s, and its 95 % interval."
    legend = tuple(Key(shape, colour, name) for _, name, colour, shape in _LATENCIES)
    return drawn(identity, title, caption, legend, lambda size: _latencies(workload, steps, size))


def cpu_figure(user: str, workload: Mapping[str, Any], caps: Mapping[str, float]) -> Figure:
    """Return the CPU [cores] of the four busiest machines that take part; the generator is one."""
    steps = [step for step in workload["steps"] if step["cores"]]
    title = f"{user}: CPU against throughput"
    identity = f"{user}-cpu"
    names = _busiest(steps)
    if not names:
        return Figure(identity, title, "", (), {}, "No machine's CPU was recorded.")
    looks = dict(zip(names, _CPU_LOOKS, strict=False))
    capped = [f"{name} may use {caps[name]:g}" for name in names if name in caps]
    caption = "Mean cores in use during each step" + (f"; {', '.join(capped)}." if capped else ".")
    legend = tuple(Key(shape, colour, name) for name, (colour, shape) in looks.items())
    rows = [
        {
            "rate": step["answered_per_s"],
            "cores": step["cores"][name],
            "colour": looks[name][0],
            "shape": looks[name][1],
        }
        for step in steps
        for name in names
        if name in step["cores"]
    ]
    return drawn(identity, title, caption, legend, lambda size: _cpu(rows, size))


def _busiest(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the machines with the greatest use, one for each style of line, sorted by name."""
    most: dict[str, float] = {}
    for step in steps:
        for name, cores in step["cores"].items():
            most[name] = max(most.get(name, 0.0), cores)
    taking_part = [name for name in most if not name.startswith(("influxdb", "grafana"))]
    return sorted(sorted(taking_part, key=lambda name: -most[name])[: len(_CPU_LOOKS)])


def _latencies(workload: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], size: Size) -> Any:
    rows = [
        {
            "rate": step["answered_per_s"],
            "ms": max(float(step[field]), 0.01),
            "colour": colour,
            "shape": shape,
        }
        for step in steps
        for field, _, colour, shape in _LATENCIES
        if step[field] is not None
    ]
    limit_ms = workload["limit_ms"]
    domain = [min(row["ms"] for row in rows) * 0.7,
              max(limit_ms, *(row["ms"] for row in rows)) * 1.4]  # fmt: skip
    y = marks.logarithmic(alt.Y, "ms", "latency, ms (log scale)", domain)
    x = _rate_axis(rows)
    layers = []
    if (nodt := workload["nodt_per_s"]) is not None:
        span = [{"rate": nodt["low"], "end": nodt["high"]}]
        layers.append(marks.shade(span, palette.INTERFERENCE.light, 0.18, x=x, x2=alt.X2("end:Q")))
        layers.append(marks.rule([{"rate": nodt["value"]}], (1, 0), x=x))
    layers += [marks.rule([{"ms": limit_ms}], y=y), marks.points(rows, x, y, **_EDGE)]
    return alt.layer(*layers).properties(width=size.plot_width, height=260 if size.small else 320)


def _cpu(rows: Rows, size: Size) -> Any:
    top = max(row["cores"] for row in rows) * 1.1 or 1.0
    y = marks.linear(alt.Y, "cores", "CPU, cores", [0, top], tickCount=6)
    return marks.points(rows, _rate_axis(rows), y, **_EDGE).properties(
        width=size.plot_width, height=220 if size.small else 260
    )


def _rate_axis(rows: Rows) -> Any:
    top = max(row["rate"] for row in rows) * 1.08 or 1.0
    return marks.linear(alt.X, "rate", "answers per second", [0, top], tickCount=8)
