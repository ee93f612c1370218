"""Reading back from InfluxDB with InfluxQL, which 1.x, 2.x and 3.x all answer."""

from __future__ import annotations

import httpx
import polars as pl

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.record.records import HOSTS
from experiments.record.telemetry.writer import DATABASE
from grafana.address import without_login
from grafana.influx import Influx, QueryError


class InfluxQuery:
    """Queries on one database."""

    def __init__(self, url: str) -> None:
        self._public_url = without_login(url)
        self._influx = Influx(url, DATABASE)

    def close(self) -> None:
        self._influx.close()

    def rows(self, influxql: str) -> list[JsonObject]:
        """Return the rows of all series, with their tags and `_measurement`; `time` in ns. Raises
        EnvironmentMissing.
        """
        try:
            all_series = self._influx.series(influxql, "ns")
        except (httpx.HTTPError, QueryError, ValueError) as error:
            raise EnvironmentMissing(
                f"InfluxDB at {self._public_url}",
                expected=f"an answer to {influxql}",
                got=f"{type(error).__name__}: {error}",
                hint="See whether the machine influxdb-1 is up; run files do not depend on it.",
            ) from error
        return [
            {
                "_measurement": series.get("name", ""),
                **series.get("tags", {}),
                **dict(zip(series["columns"], values, strict=True)),
            }
            for series in all_series
            for values in series.get("values", [])
        ]

    def points(self, run: str) -> dict[str, int]:
        """Return the points of a run in each measurement: the fullest field counts."""
        rows = self.rows(f"SELECT COUNT(*) FROM /.*/ WHERE run = {literal(run)}")
        return {
            row["_measurement"]: max(
                value or 0 for name, value in row.items() if name.startswith("count_")
            )
            for row in rows
        }

    def hosts(self, experiment: str, *, t0_ns: int, end_ns: int) -> pl.DataFrame:
        """Return the hosts.parquet table: the node agents' samples in [t0, end], seconds
        since t0.
        """
        rows = self.rows(
            f"SELECT * FROM host WHERE experiment = {literal(experiment)}"
            f" AND time >= {t0_ns} AND time <= {end_ns}"
        )
        table = [
            {
                "time_s": (row["time"] - t0_ns) / 1e9,
                **{name: row.get(name) for name in HOSTS.names() if name != "time_s"},
            }
            for row in rows
        ]
        return pl.DataFrame(table, schema=HOSTS, strict=False).sort("time_s", "machine")


def literal(text: str) -> str:
    """Return a string literal of InfluxQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
