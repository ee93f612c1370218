"""Check of every query of the dashboards against an InfluxDB, with the number of rows.

`python -m grafana.verify --url http://USER:PASSWORD@127.0.0.1:18086` takes the newest run there,
prints a row count per panel and the dashboard's address for the run. Exit code: 0 each panel has
data, 1 one has none, 2 wrong usage, 3 InfluxDB does not answer.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import NamedTuple

import httpx

from grafana.address import without_login
from grafana.influx import Influx, QueryError, newest, view_of
from grafana.macros import MacroError, View, expand
from grafana.panel_query import PanelQuery
from grafana.queries import MARGIN_MS, VARIABLES, panel_queries, run_path, statistics_queries


class PanelRows(NamedTuple):
    """A panel, annotation or variable, and the rows of its query with the fewest."""

    panel: str
    rows: int


def _rows(influx: Influx, query: PanelQuery, view: View) -> int:
    """Count rows with at least one value; an empty panel has only buckets without values."""
    series = influx.series(expand(query.influxql, view, query.interval_s))
    first_value = 0 if query.panel.startswith("variable:") else 1
    return sum(
        any(value is not None for value in row[first_value:])
        for table in series
        for row in table["values"]
    )


def _tiers(influx: Influx, view: View) -> list[str]:
    [variable] = [candidate for candidate in VARIABLES if candidate.name == "tier"]
    return influx.tag_values(expand(variable.influxql, view, interval_s=1))


def _least_rows(influx: Influx, query: PanelQuery, view: View) -> int:
    """Count the rows of a query, for the tier with the fewest if the panel is repeated per tier."""
    if not query.per_tier:
        return _rows(influx, query, view)
    views = [replace(view, tier=tier) for tier in _tiers(influx, view)]
    return min((_rows(influx, query, tier_view) for tier_view in views), default=0)


def queries_of(dashboard: str) -> list[PanelQuery]:
    """Return the queries of "experiment", "arbiters", or "both", without repetition."""
    boards = {"experiment": panel_queries(), "arbiters": statistics_queries()}
    chosen = boards if dashboard == "both" else [dashboard]
    return list(dict.fromkeys(query for name in chosen for query in boards[name]))


def verify(
    influx_url: str, database: str, experiment: str, run: str, dashboard: str = "both"
) -> list[PanelRows]:
    """Run every query of a dashboard as Grafana would, over the whole run.

    Raises QueryError if a query is refused or the run is unknown, and httpx.TransportError if
    InfluxDB does not answer.
    """
    rows: dict[str, list[int]] = {}
    with Influx(influx_url, database) as influx:
        view = view_of(influx, experiment, run)
        for query in queries_of(dashboard):
            counts = rows.setdefault(query.panel, [])
            count = _least_rows(influx, query, view)
            if count or not query.may_be_empty:
                counts.append(count)
    return [PanelRows(panel, min(counts, default=0)) for panel, counts in rows.items()]


def empty_panels(results: list[PanelRows]) -> list[str]:
    """Return the panels without data, except those that a valid run may leave empty."""
    always = {query.panel for query in queries_of("both") if not query.may_be_empty}
    return [panel for panel, rows in results if rows == 0 and panel in always]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m grafana.verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--url", required=True, help="InfluxDB, like http://USER:PASSWORD@127.0.0.1:18086"
    )
    parser.add_argument("--database", default="sparecraft")
    parser.add_argument("--experiment", help="default: that of the newest run")
    parser.add_argument("--run", help="default: the newest")
    parser.add_argument(
        "--dashboard",
        choices=("experiment", "arbiters", "both"),
        default="both",
        help="whose panels must have data",
    )
    return parser.parse_args()


def _print(results: list[PanelRows], view: View) -> int:
    width = max(len(panel) for panel, _ in results)
    for panel, rows in results:
        print(f"{panel:{width}}  {rows:6d}")
    print(run_path(view.experiment, view.run, view.from_ms + MARGIN_MS, view.to_ms - MARGIN_MS))
    empty = empty_panels(results)
    for panel in empty:
        print(f"expected data for {panel!r}, got no row", file=sys.stderr)
    return 1 if empty else 0


def main() -> int:
    arguments = _arguments()
    try:
        with Influx(arguments.url, arguments.database) as influx:
            run = arguments.run or newest(influx, "run", "experiment", arguments.experiment)
            experiment = arguments.experiment or newest(influx, "experiment", "run", run)
            view = view_of(influx, experiment, run)
            results = verify(
                arguments.url, arguments.database, experiment, run, arguments.dashboard
            )
        return _print(results, view)
    except (QueryError, MacroError, httpx.InvalidURL) as error:
        print(error, file=sys.stderr)
        return 2
    except (httpx.TransportError, httpx.HTTPStatusError) as error:
        print(
            f"expected InfluxDB's query interface at {without_login(arguments.url)}, got: {error}; "
            "is the fleet up (`sparecraft run NAME --keep`)?",
            file=sys.stderr,
        )
        return 3


if __name__ == "__main__":
    sys.exit(main())
