"""The dashboard "Fleet cost and SLO over nights", from the history of `sparecraft nightly`."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard, units

from grafana import queries_nights as queries
from grafana.charts import Chart, a_table, empty_board, time_series
from grafana.queries import NIGHT_VARIABLES

UID = queries.UID

_TAIL = (
    "Of each arm of valid runs, with its 95 % interval; red: the SLO's limit. Runs that were not "
    "valid are lines of their own, never left out."
)
_CHARTS = (
    Chart(queries.P95, _TAIL, units.Milliseconds, "p95", arms=True, points=True),
    Chart(queries.P99, _TAIL, units.Milliseconds, "p99", arms=True, points=True),
    Chart(
        queries.USD,
        "Of the fleet that was measured, and of the cheapest that the night's plan found.",
        units.Dollars,
        "USD per month",
        points=True,
    ),
    Chart(
        queries.BURNS,
        "Share of bad requests over the share that may be, whole run, of the arm that the SLO is "
        "asked of. Above 1 the limit is missed.",
        units.Short,
        "Times the budget",
        limit=1.0,
        points=True,
    ),
    Chart(
        queries.GAINS,
        "Latency of the baseline over the arm's, of the same run, so that a slow host is no "
        "regression. Above 1 the arm is faster.",
        units.Short,
        "Factor",
        arms=True,
        limit=1.0,
        points=True,
    ),
    Chart(
        queries.COUNTS,
        "What the percentiles rest on, and what failed, in runs valid or not.",
        units.Short,
        "Requests",
        arms=True,
        points=True,
    ),
)


def _runs(panel_id: int) -> table.Panel:
    about = "valid: 1 yes, 0 no. slo_met: 1 yes, 0 no, -1 too few requests decide. USD per month."
    milliseconds = [dashboard.DynamicConfigValue("unit", units.Milliseconds)]
    usd = [dashboard.DynamicConfigValue("unit", units.Dollars)]
    panel = a_table(queries.RUNS, about, panel_id, 24).unit(units.Short)
    return panel.override_by_regexp("_ms$", milliseconds).override_by_regexp("usd", usd)


def nights_dashboard() -> dashboard.Dashboard:
    """Return the dashboard of one design of the suite."""
    ids = iter(range(1, 100))
    board = empty_board(
        UID,
        "Fleet cost and SLO over nights",
        "What a design's fleet costs and how it keeps its SLO, night by night.",
        variables=NIGHT_VARIABLES,
        annotations=(),
        since="now-90d",
        refresh="5m",
    )
    board.with_row(dashboard_builders.Row("$entry").id(next(ids)))
    for chart in _CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    return board.with_panel(_runs(next(ids))).build()
