"""The dashboard "Sparecraft experiment": panels around the queries of grafana.queries."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard, units

from grafana import queries
from grafana.charts import Chart, a_table, empty_board, time_series
from grafana.slo import COST_CHARTS, EXTRA_WORK, LATENCY, SLO_CHARTS

LOAD_CHARTS = (
    Chart(
        queries.RATE,
        "Requests by their intended start, and those of them answered well (status, content and "
        "in time). Where the lines part, users did not get their page. The last bucket is still "
        "filling.",
        units.RequestsPerSecond,
        "Requests per second",
    ),
    LATENCY,
    Chart(
        queries.FAILURES,
        "Requests that did not end well, by outcome, by their intended start; and what each "
        "tier's arbiter could not answer. No outcome is listed while no request failed.",
        units.RequestsPerSecond,
        "Failures per second",
        width=8,
    ),
    Chart(
        queries.LAG,
        "How late the load generator sent, against the schedule. A run is not valid when the p99 "
        "of this is more than 5 % of the measured p50 latency.",
        units.Milliseconds,
        "Sent late by",
        width=8,
    ),
)
ARBITER_CHARTS = (
    Chart(
        queries.SERVER_LATENCY,
        "Mean latency of each server as its arbiter sees it, over one poll of a second. A limping "
        "server stands out; one without requests has no line.",
        units.Milliseconds,
        "Latency (log scale)",
        log=True,
    ),
    Chart(
        queries.IN_FLIGHT,
        "Requests (or connections, on MySQL) that the arbiter has open at each server. A server "
        "that hangs collects them.",
        units.Short,
        "In flight",
    ),
    Chart(
        queries.TOKENS,
        "Tokens handed out and tokens there are. When all are in use, replicas are left out: the "
        "tier has no room for them.",
        units.Short,
        "Tokens",
    ),
    Chart(
        queries.REPLICAS,
        "Copies sent to servers, and copies whose reply came after the first: the work that "
        "replication costs.",
        units.RequestsPerSecond,
        "Replicas per second",
    ),
    EXTRA_WORK,
)
HOST_CHARTS = (
    Chart(
        queries.CPU,
        "CPU time used, in percent of what the machine may use.",
        units.Percent,
        "Share of the cap",
        many=True,
    ),
    Chart(
        queries.THROTTLED,
        "Share of scheduling periods in which the machine was stopped at its CPU cap. Empty where "
        "the kernel does not tell.",
        units.Percent,
        "Throttled periods",
        many=True,
    ),
    Chart(
        queries.NIC,
        "The data interface, the one that faults touch: received upwards, sent downwards.",
        units.MegabitsPerSecond,
        "Sent (−), received (+)",
        mirrored=True,
        many=True,
    ),
    Chart(
        queries.DISK,
        "Read upwards, written downwards. Empty where the kernel does not tell.",
        units.MegabytesPerSecond,
        "Written (−), read (+)",
        mirrored=True,
        many=True,
    ),
    Chart(
        queries.MEMORY,
        "Memory in use, without the page cache that can go at once.",
        units.Megabytes,
        "Memory",
        many=True,
    ),
    Chart(
        queries.FAULTS_ACTIVE,
        "Faults and interference that each machine's agent holds active. All lines end at zero, "
        "or something was not undone.",
        units.Short,
        "Active",
        many=True,
    ),
)


def _latency_table(panel_id: int) -> table.Panel:
    without_time = dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True}}
    )
    count_unit = dashboard.DynamicConfigValue("unit", units.Short)
    about = (
        "Over the whole range shown, from the intended start; a failed request is in it at the "
        "load's time-out. A percentile with fewer than 10 requests beyond it (p99: fewer than 1000 "
        "in all) is a guess."
    )
    return (
        a_table(queries.TABLE, about, panel_id, 8)
        .unit(units.Milliseconds)
        .decimals(0)
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(without_time)
        .override_by_regexp("requests|failed", [count_unit])
    )


def experiment_dashboard() -> dashboard.Dashboard:
    """Return the dashboard; panels have positions and ids in the order of appearance."""
    ids = iter(range(1, 100))
    board = empty_board(
        queries.UID,
        "Sparecraft experiment",
        "One experiment as it runs: load, arbiters, machines, and what disturbs them.",
    )
    board.with_row(dashboard_builders.Row("Load, as users see it").id(next(ids)))
    for chart in LOAD_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    board.with_panel(_latency_table(next(ids)))
    board.with_row(dashboard_builders.Row("SLO and cost").id(next(ids)))
    for chart in (*SLO_CHARTS, *COST_CHARTS):
        board.with_panel(time_series(chart, next(ids)))
    board.with_row(dashboard_builders.Row("Arbiter of tier $tier").id(next(ids)).repeat("tier"))
    for chart in ARBITER_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    board.with_row(dashboard_builders.Row("Machines").id(next(ids)))
    for chart in HOST_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    return board.build()
