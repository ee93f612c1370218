"""InfluxQL over the v1 endpoint, and the runs that an InfluxDB holds."""

from __future__ import annotations

from typing import Any

from grafana.address import client_of
from grafana.macros import View, plain
from grafana.queries import MARGIN_MS


class QueryError(Exception):
    """A query that InfluxDB refused, or that has no data of the run."""


class NoRunError(QueryError):
    """A run without data in InfluxDB."""


class Influx:
    """A client of one database; close it, or use it in a `with`."""

    def __init__(self, url: str, database: str) -> None:
        self._client = client_of(url, timeout_s=30.0)
        self._database = database

    def __enter__(self) -> Influx:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def series(self, influxql: str, epoch: str = "ms") -> list[dict[str, Any]]:
        """Return the series of one statement, with times as Unix time in `epoch`.

        Raises QueryError with InfluxDB's own message.
        """
        parameters = {"db": self._database, "q": influxql, "epoch": epoch}
        answer = self._client.get("/query", params=parameters)
        body = answer.json() if answer.content else {}
        result = (body.get("results") or [{}])[0]
        if error := body.get("error") or result.get("error"):
            raise QueryError(f"{error}, for `{influxql}`")
        answer.raise_for_status()
        return list(result.get("series", []))

    def tag_values(self, influxql: str) -> list[str]:
        """Return the values of a SHOW TAG VALUES, sorted."""
        values = {row[1] for series in self.series(influxql) for row in series["values"]}
        return sorted(values)


def _bound_ms(influx: Influx, function: str, experiment: str, run: str) -> int:
    condition = f"\"experiment\" = '{experiment}' AND \"run\" = '{run}'"
    series = influx.series(f'SELECT {function}("repeat") FROM "request" WHERE {condition}')
    if not series:
        raise NoRunError(f"no requests of experiment {experiment}, run {run}")
    return int(series[0]["values"][0][0])


def view_of(influx: Influx, experiment: str, run: str) -> View:
    """Return the dashboard's variables and the time range of the whole run."""
    first_ms = _bound_ms(influx, "first", experiment, run)
    last_ms = _bound_ms(influx, "last", experiment, run)
    return View(experiment, run, first_ms - MARGIN_MS, last_ms + MARGIN_MS)


def newest(influx: Influx, key: str, other_key: str, value: str | None) -> str:
    """Return the last value of a tag of `request`; run names are UTC times, so it is the newest."""
    condition = f" WHERE \"{other_key}\" = '{plain(other_key, value)}'" if value else ""
    values = influx.tag_values(f'SHOW TAG VALUES FROM "request" WITH KEY = "{key}"{condition}')
    if not values:
        known = influx.tag_values(f'SHOW TAG VALUES FROM "request" WITH KEY = "{other_key}"')
        runs_text = f"only {', '.join(known)}" if known else "no run at all"
        raise NoRunError(f"no {other_key} {value}: {runs_text}" if value else runs_text)
    return values[-1]
