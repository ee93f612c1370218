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
    """Looks at one run; the newest of an experiment, or of all, where none is named."""

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
        whole = view_of(self.influx, experiment, run)
        last_ms = whole.to_ms - MARGIN_MS + 1  # the last request is within it
        live = now_ms - last_ms < _LIVE_MS
        view = replace(whole, to_ms=now_ms if live else last_ms)
        windows = self._windows(replace(view, to_ms=now_ms))  # a verdict comes after the requests
        open_now = [one for one in windows if one["end_ms"] is None] if live else []
        body: Snapshot = {
            "experiment": experiment,
            "run": run,
            "from_ms": view.from_ms,
            "to_ms": view.to_ms,
            "live": live,
            "arm": _newest_of(open_now, "Arms"),
            "phase": _newest_of(open_now, "Phases"),
            "slo": self._slo(view),
            "usd_per_hour": self._last(USD_PER_HOUR, view),
            "faults": [
                one
                for one in open_now
                if one["layer"] in _DISTURB and not one["title"].startswith("error: ")
            ],
            "failures": self._failures(view),
            "extra_work_percent": self._extra_work(view),
            "windows": [one for one in windows if one["layer"] in _DISTURB],
        }
        arms = self._arms(view)
        return {**body, "arms": arms, "verdicts": _verdicts(windows, [one["arm"] for one in arms])}

    def tiers(self, view: View) -> list[str]:
        """Return the tiers with an arbiter."""
        [variable] = [one for one in VARIABLES if one.name == "tier"]
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
                    yield _named(query.alias, series.get("tags") or {}, column), points

    def _arms(self, view: View) -> list[JsonObject]:
        """Return each arm over the whole run, and what is now."""
        whole = self._table(view)
        recent = {minutes: self._table(_last_minutes(view, minutes)) for minutes in WINDOWS_MIN}
        burns = self._burns(view)
        dear = {
            name: points[-1][1]
            for query in _of(USD_PER_MILLION)
            for name, points in self.series(query, view, _WHOLE_S)
        }
        return [
            {
                "arm": arm,
                **figures,
                "last_minute": recent[1].get(arm),
                "usd_per_million": dear.get(arm),
                "burn": {
                    limit: _burn({n: rate for n, rate in rates.items() if arm in recent[n]})
                    for limit, rates in burns.get(arm, {}).items()
                },
            }
            for arm, figures in whole.items()
        ]

    def _table(self, view: View) -> dict[str, dict[str, object]]:
        """Requests, failures and latency by arm."""
        found: dict[str, dict[str, object]] = {}
        for query in _of(TABLE):
            for series in self.influx.series(expand(query.influxql, view, 1)):
                row = dict(zip(series["columns"][1:], series["values"][0][1:], strict=True))
                found.setdefault(series["tags"]["arm"], {"failed": 0}).update(row)
        return {arm: row for arm, row in found.items() if row.get("requests")}

    def _burns(self, view: View) -> dict[str, dict[str, dict[int, float]]]:
        """Return the last burn rates by arm, limit and minutes."""
        found: dict[str, dict[str, dict[int, float]]] = {}
        for limit, panel in BURN.items():
            for query, minutes in zip(_of(panel), WINDOWS_MIN, strict=True):
                for name, points in self.series(query, view, query.interval_s):
                    arm = name.removesuffix(f" {minutes} min")
                    found.setdefault(arm, {}).setdefault(limit, {})[minutes] = points[-1][1]
        return found

    def _slo(self, view: View) -> dict[str, float]:
        """Return the limits as they were told: p95 and p99 [ms]."""
        limits = [query for query in _of(LATENCY) if query.alias.startswith("SLO ")]
        return {
            name.removeprefix("SLO "): points[-1][1]
            for query in limits
            for name, points in self.series(query, view, _WHOLE_S)
        }

    def _last(self, panel: str, view: View) -> float | None:
        values = [
            points[-1][1]
            for query in _of(panel)
            for _, points in self.series(query, view, query.interval_s)
        ]
        return values[-1] if values else None

    def _failures(self, view: View) -> dict[str, int]:
        """Return the requests that did not end well, by outcome, the warm-up included."""
        query, *_ = _of(FAILURES)  # a rate
        lines = self.series(query, view, _WHOLE_S)
        return {name: round(points[-1][1] * _WHOLE_S) for name, points in lines}

    def _extra_work(self, view: View) -> dict[str, float | None]:
        return {tier: self._last(EXTRA_WORK, replace(view, tier=tier)) for tier in self.tiers(view)}

    def _windows(self, view: View) -> list[JsonObject]:
        """Faults, interference, phases, arms and verdicts, in order; an end of None is open."""
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
            key=lambda one: float(one["start_ms"]),
        )


def _of(panel: str) -> list[PanelQuery]:
    return [query for query in _QUERIES if query.panel == panel]


def _last_minutes(view: View, minutes: int) -> View:
    return replace(view, from_ms=max(view.from_ms, view.to_ms - minutes * 60_000))


def _newest_of(windows: Sequence[Mapping[str, Any]], layer: str) -> str | None:
    return next((one["title"] for one in reversed(windows) if one["layer"] == layer), None)


def _verdicts(windows: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> dict[str, object]:
    """Return the newest of the run, without which no other counts, and of each arm as the tables
    have them.
    """
    found = {
        one["kind"]: {key: one[key] for key in ("title", "text", "start_ms")}
        for one in windows
        if one["layer"] == "Verdicts"
    }
    return {name: found[name] for name in dict.fromkeys(("run", *arms, *found)) if name in found}


def _named(alias: str, tags: Mapping[str, str], column: str) -> str:
    """Grafana's aliases, as far as ours go."""
    for tag, value in tags.items():
        alias = alias.replace(f"$tag_{tag}", value)
    return alias.replace("$col", column)


def _burn(rates: Mapping[int, float]) -> dict[str, float | str | None]:
    """Return the rates by window, None if no request was, and what they say together."""
    known: dict[str, float | str | None] = {f"{n} min": rates.get(n) for n in WINDOWS_MIN}
    if not rates:
        return {**known, "said": ""}
    short, long = (rates.get(n, 0.0) > 1.0 for n in WINDOWS_MIN)
    if short:
        return {**known, "said": "burns" if long else "begins to burn"}
    return {**known, "said": "has burnt" if long else "within"}
