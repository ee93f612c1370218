"""The dashboard "Sparecraft arbiters": the measurements of each tier's arbiter (sPARE 5.1)."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.models import dashboard, units

from grafana import queries
from grafana.charts import Chart, empty_board, time_series

UID = "sparecraft-arbiters"  # bookmarks hang on it: never change it

_CHARTS = (
    Chart(
        queries.ARRIVALS,
        "What clients asked, and the connections they opened. On MySQL a connection takes the "
        "tokens, on HTTP a request does.",
        units.RequestsPerSecond,
        "Per second",
    ),
    Chart(
        queries.REQUEST_LATENCY,
        "From the complete request to the complete reply, over the last 60 seconds, by the "
        "arbiter's clock: a failed request is in it with the time that it took. A percentile with "
        "fewer than 10 samples beyond it has no line.",
        units.Milliseconds,
        "Latency (log scale)",
        log=True,
    ),
    Chart(
        queries.PROCESSING,
        "Core time per request, estimated from how many ran at a server at the same time. A front "
        "tier's waiting for the tier below counts as processing.",
        units.Milliseconds,
        "Core time (log scale)",
        log=True,
    ),
    Chart(
        queries.TOKEN_HOLD,
        "How long a grant was held, mean over a poll: its inverse is the token rate of sPARE "
        "Eq. 5.",
        units.Milliseconds,
        "Hold time (log scale)",
        log=True,
    ),
    Chart(
        queries.AT_SERVER,
        "Time that requests were at a server, per second: how many were there on average.",
        units.Short,
        "Requests",
    ),
    Chart(
        queries.WASTED,
        "Time that servers spent on replicas whose reply came after the first, of all their time: "
        "what replication costs. Zero at r = 1.",
        units.Percent,
        "Wasted",
    ),
    Chart(
        queries.SERVER_ERRORS,
        "Failed connections, broken or timed out replies, HTTP 5xx, SQL errors of the server's "
        "making.",
        units.RequestsPerSecond,
        "Errors per second",
    ),
    Chart(
        queries.AGREEMENT,
        "Reads whose replicas' replies were held against each other: alike, different, not "
        "comparable, refused. All zero unless the arbiter's compare mode is on.",
        units.RequestsPerSecond,
        "Reads per second",
    ),
    Chart(
        queries.CONTRADICTED,
        "How often more than half of the replies to a read said something else than this server.",
        units.RequestsPerSecond,
        "Reads per second",
    ),
    Chart(
        queries.ALIVE,
        "1 while the arbiter may choose the server, 0 from a failed connection until a probe "
        "succeeds.",
        units.Short,
        "Alive",
    ),
)


def statistics_dashboard() -> dashboard.Dashboard:
    """Return the dashboard, with a row of panels for each tier."""
    ids = iter(range(1, 100))
    board = empty_board(
        UID,
        "Sparecraft arbiters",
        "What the arbiters measure: arrivals, latencies, processing and token hold times, waste.",
    )
    board.with_row(dashboard_builders.Row("Arbiter of tier $tier").id(next(ids)).repeat("tier"))
    for chart in _CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    return board.build()
