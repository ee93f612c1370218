"""The dashboard's charts as data for the page: lines, colours and axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.report import palette
from experiments.report.palette import Colour
from experiments.watch.snapshot import Snapshot, Watcher
from grafana.charts import Chart, targets
from grafana.dashboard import HOST_CHARTS, LOAD_CHARTS
from grafana.macros import View
from grafana.queries import CPU, FAULTS_ACTIVE
from grafana.slo import COST_CHARTS, EXTRA_WORK, SLO_CHARTS

_COLOURS = len(palette.ARMS) + 1
_BUCKETS = 240  # at most, in a chart
_CHARTS = (
    *LOAD_CHARTS,
    *SLO_CHARTS,
    *COST_CHARTS,
    EXTRA_WORK,
    *(chart for chart in HOST_CHARTS if chart.title in (CPU, FAULTS_ACTIVE)),
)
_UNITS = {"ms": "ms", "reqps": "per second", "currencyUSD": "USD", "percent": "%", "short": ""}
_DASHES = {" p95": [8, 4], " p50": [2, 3], " 5 min": [8, 4], " max": [2, 3]}


def panels(watcher: Watcher, snapshot: Snapshot) -> list[dict[str, object]]:
    """Return each chart with its lines; a chart for each tier where Grafana has a row for each."""
    view = View(snapshot["experiment"], snapshot["run"], snapshot["from_ms"], snapshot["to_ms"])
    arms = [arm["arm"] for arm in snapshot["arms"]]
    charts = []
    for chart in _CHARTS:
        tiers = watcher.tiers(view) if "$tier" in chart.title else [""]
        charts += [_panel(watcher, chart, replace(view, tier=tier), arms) for tier in tiers]
    return charts


def _panel(watcher: Watcher, chart: Chart, view: View, arms: Sequence[str]) -> dict[str, object]:
    range_s = (view.to_ms - view.from_ms) // 1000
    lines = [
        (name, points)
        for query in targets(chart.title)
        for name, points in watcher.series(query, view, max(query.interval_s, range_s // _BUCKETS))
    ]
    return {
        "title": chart.title.replace("$tier", view.tier),
        "about": chart.description,
        "unit": _UNITS[chart.unit],
        "log": chart.log,
        "limit": chart.limit,
        "lines": [
            {"name": name, "points": points, **_style(name, index, arms)}
            for index, (name, points) in enumerate(lines)
        ],
    }


def _style(name: str, index: int, arms: Sequence[str]) -> dict[str, object]:
    """Return a line's colours and dash: an arm's lines have its colour, the SLO's the limits'."""
    arm = next((arm for arm in arms if name == arm or name.startswith(f"{arm} ")), None)
    colour = _colour(name, index, arms, arm)
    default_dash = [2, 2] if arm is None and index >= _COLOURS else []
    dash = next((dash for end, dash in _DASHES.items() if name.endswith(end)), default_dash)
    return {
        "light": colour.light,
        "dark": colour.dark,
        "dash": [4, 3] if name.startswith("SLO ") else dash,
    }


def _colour(name: str, index: int, arms: Sequence[str], arm: str | None) -> Colour:
    if name.startswith("SLO "):
        return palette.FAULT
    if arm is not None:
        return palette.arm_colour(arms, arm)
    return (*palette.ARMS, palette.INTERFERENCE)[index % _COLOURS]
