"""A snapshot of a run: the answers to the queries of Grafana's dashboard, as JSON.

Terminal and page show this and nothing else. A run is live while requests come in; of one that is
over, "now" is its last request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.json_object import JsonObject
from grafana.influx import Influx, newest, view_of
from grafana.macros import View, expand
from grafana.panel_query import PanelQuery
from grafana.queries import ANNOTATIONS, FAILURES, MARGIN_MS, TABLE, VARIABLES, panel_queries
from grafana.queries_slo import (
    BURN,
    EXTRA_WORK,
    LATENCY,
    USD_PER_HOUR,
    USD_PER_MILLION,
    WINDOWS_MIN,
)

Snapshot = JsonObject
Points = list[list[float]]

_LIVE_MS = 60_000  # since the last request
_DISTURB = ("Faults", "Interference")
_WHOLE_S = 4_000_000_000  # one bucket for all of a run
_QUERIES = panel_queries()


class Watcher:
    """Looks at one run: the newest of an experiment, or of all, if none is named."""

    def __init__(self, influx: Influx, experiment: str | None, run: str | None) -> None:
        self.influx = influx
        self._experiment = experiment
        self._run = run

    def take(self, now_ms: int | None = None) -> Snapshot:
        """Return the snapshot of now. Raises QueryError if there is no such run, and httpx's
        errors where InfluxDB does not answer.
        """
        now_ms = now_ms or round(time.time() * 1000)
        run = self._run or newest(self.influx, "run", "experiment", self._experiment)
        experiment = self._experiment or newest(self.influx, "experiment", "run", run)
        full_view = view_of(self.influx, experiment, run)
        last_ms = full_view.to_ms - MARGIN_MS + 1  # the last request is within it
        live = now_ms - last_ms < _LIVE_MS
        view = replace(full_view, to_ms=now_ms if live else last_ms)
        windows = self._windows(replace(view, to_ms=now_ms))  # a verdict comes after the requests
        open_now = [window for window in windows if window["end_ms"] is None] if live else []
        body: Snapshot = {
            "experiment": experiment,
            "run": run,
            "from_ms": view.from_ms,
            "to_ms": view.to_ms,
            "live": live,
            "arm": _newest_title(open_now, "Arms"),
            "phase": _newest_title(open_now, "Phases"),
            "slo": self._slo(view),
            "usd_per_hour": self._last_value(USD_PER_HOUR, view),
            "faults": [
                window
                for window in open_now
                if window["layer"] in _DISTURB and not window["title"].startswith("error: ")
            ],
            "failures": self._failures(view),
            "extra_work_percent": self._extra_work(view),
            "windows": [window for window in windows if window["layer"] in _DISTURB],
        }
        arms = self._arms(view)
        return {**body, "arms": arms, "verdicts": _verdicts(windows, [arm["arm"] for arm in arms])}

    def tiers(self, view: View) -> list[str]:
        [variable] = [variable for variable in VARIABLES if variable.name == "tier"]
        return self.influx.tag_values(expand(variable.influxql, view, 1))

    def series(
        self, query: PanelQuery, view: View, interval_s: int
    ) -> Iterator[tuple[str, Points]]:
        """Yield a query's lines, each with the name that Grafana would give it."""
        for series in self.influx.series(expand(query.influxql, view, interval_s)):
            for index, column in enumerate(series["columns"][1:], start=1):
                points = [
                    [row[0], row[index]] for row in series["values"] if row[index] is not None
                ]
                if points:
                    yield _line_name(query.alias, series.get("tags") or {}, column), points

    def _arms(self, view: View) -> list[JsonObject]:
        """Return each arm's figures over the whole run and over the last minutes."""
        totals = self._table(view)
        recent = {minutes: self._table(_last_minutes(view, minutes)) for minutes in WINDOWS_MIN}
        burns = self._burns(view)
        usd_per_million = {
            name: points[-1][1]
            for query in _queries_of(USD_PER_MILLION)
            for name, points in self.series(query, view, _WHOLE_S)
        }
        return [
            {
                "arm": arm,
                **figures,
                "last_minute": recent[1].get(arm),
                "usd_per_million": usd_per_million.get(arm),
                "burn": {
                    limit: _burn_state(
                        {minutes: rate for minutes, rate in rates.items() if arm in recent[minutes]}
                    )
                    for limit, rates in burns.get(arm, {}).items()
                },
            }
            for arm, figures in totals.items()
        ]

    def _table(self, view: View) -> dict[str, dict[str, object]]:
        """Return requests, failures and latency by arm."""
        rows: dict[str, dict[str, object]] = {}
        for query in _queries_of(TABLE):
            for series in self.influx.series(expand(query.influxql, view, 1)):
                row = dict(zip(series["columns"][1:], series["values"][0][1:], strict=True))
                rows.setdefault(series["tags"]["arm"], {"failed": 0}).update(row)
        return {arm: row for arm, row in rows.items() if row.get("requests")}

    def _burns(self, view: View) -> dict[str, dict[str, dict[int, float]]]:
        """Return the last burn rates by arm, limit and minutes."""
        rates: dict[str, dict[str, dict[int, float]]] = {}
        for limit, panel in BURN.items():
            for query, minutes in zip(_queries_of(panel), WINDOWS_MIN, strict=True):
                for name, points in self.series(query, view, query.interval_s):
                    arm = name.removesuffix(f" {minutes} min")
                    rates.setdefault(arm, {}).setdefault(limit, {})[minutes] = points[-1][1]
        return rates

    def _slo(self, view: View) -> dict[str, float]:
        """Return the limits as they are in InfluxDB: p95 and p99 [ms]."""
        limits = [query for query in _queries_of(LATENCY) if query.alias.startswith("SLO ")]
        return {
            name.removeprefix("SLO "): points[-1][1]
            for query in limits
            for name, points in self.series(query, view, _WHOLE_S)
        }

    def _last_value(self, panel: str, view: View) -> float | None:
        values = [
            points[-1][1]
            for query in _queries_of(panel)
            for _, points in self.series(query, view, query.interval_s)
        ]
        return values[-1] if values else None

    def _failures(self, view: View) -> dict[str, int]:
        """Return the requests that did not end well, by outcome, the warm-up included."""
        query, *_ = _queries_of(FAILURES)  # a rate
        lines = self.series(query, view, _WHOLE_S)
        return {name: round(points[-1][1] * _WHOLE_S) for name, points in lines}

    def _extra_work(self, view: View) -> dict[str, float | None]:
        return {
            tier: self._last_value(EXTRA_WORK, replace(view, tier=tier))
            for tier in self.tiers(view)
        }

    def _windows(self, view: View) -> list[JsonObject]:
        """Return faults, interference, phases, arms and verdicts by start; one without an end is
        open."""
        return sorted(
            (
                {
                    "layer": layer.name,
                    "start_ms": row[0],
                    "end_ms": row[1],
                    "title": row[2],
                    "text": row[3],
                    "kind": row[4],
                }
                for layer in ANNOTATIONS
                for series in self.influx.series(expand(layer.query.influxql, view, 1))
                for row in series["values"]
            ),
            key=lambda window: float(window["start_ms"]),
        )


def _queries_of(panel: str) -> list[PanelQuery]:
    return [query for query in _QUERIES if query.panel == panel]


def _last_minutes(view: View, minutes: int) -> View:
    return replace(view, from_ms=max(view.from_ms, view.to_ms - minutes * 60_000))


def _newest_title(windows: Sequence[Mapping[str, Any]], layer: str) -> str | None:
    return next((window["title"] for window in reversed(windows) if window["layer"] == layer), None)


def _verdicts(windows: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> dict[str, object]:
    """Return the newest verdict of the run, without which no other counts, and of each arm in the
    order of the tables.
    """
    verdicts = {
        window["kind"]: {key: window[key] for key in ("title", "text", "start_ms")}
        for window in windows
        if window["layer"] == "Verdicts"
    }
    return {
        name: verdicts[name]
        for name in dict.fromkeys(("run", *arms, *verdicts))
        if name in verdicts
    }


def _line_name(alias: str, tags: Mapping[str, str], column: str) -> str:
    """Return a line's name by Grafana's rules for aliases, as far as our aliases use them."""
    for tag, value in tags.items():
        alias = alias.replace(f"$tag_{tag}", value)
    return alias.replace("$col", column)


def _burn_state(rates: Mapping[int, float]) -> dict[str, float | str | None]:
    """Return the rates by window, None without a request, and what they mean together."""
    state: dict[str, float | str | None] = {
        f"{minutes} min": rates.get(minutes) for minutes in WINDOWS_MIN
    }
    if not rates:
        return {**state, "said": ""}
    short, long = (rates.get(minutes, 0.0) > 1.0 for minutes in WINDOWS_MIN)
    if short:
        return {**state, "said": "burns" if long else "begins to burn"}
    return {**state, "said": "has burnt" if long else "within"}
