"""Queries of a fleet's cost and SLO by night, from the measurement `night`, which
`sparecraft nightly --influxdb` and `sparecraft replay` write from the history."""

from __future__ import annotations

from grafana.panel_query import PanelQuery

UID = "sparecraft-nights"  # bookmarks hang on it: never change it

P95 = "p95 and its SLO"
P99 = "p99 and its SLO"
USD = "USD per month"
BURNS = "Burn of the budgets, judged arm"
GAINS = "Gain over the baseline"
COUNTS = "Requests and errors"
RUNS = "Runs, newest first"

_ENTRY = "$timeFilter AND \"entry\" = '$entry'"
_NO_SLO = "no limit was asked for"
_ALL_VALID = "every run was valid"


def _night(
    panel: str, ref: str, columns: str, where: str, alias: str, may_be_empty: str = "", by: str = ""
) -> PanelQuery:
    grouped = f' GROUP BY "{by}"' if by else ""
    query = f'SELECT {columns} FROM "night" WHERE {_ENTRY}{where}{grouped}'
    return PanelQuery(panel, ref, query, alias, may_be_empty=may_be_empty)


def _tail(panel: str, name: str) -> tuple[PanelQuery, ...]:
    """Return queries of each arm with its interval; invalid runs are separate."""
    columns = f'"{name}_ms" AS "{name}", "{name}_low_ms" AS "low", "{name}_high_ms" AS "high"'
    hollow = f'"{name}_ms" AS "{name}, not valid"'
    limit = f'"slo_{name}_ms" AS "SLO {name}"'
    return (
        _night(panel, "A", columns, ' AND "valid" = 1', "$tag_arm $col", by="arm"),
        _night(panel, "B", hollow, ' AND "valid" = 0', "$tag_arm $col", _ALL_VALID, "arm"),
        _night(panel, "C", limit, ' AND "judged" = 1', "$col", _NO_SLO),
    )


NIGHT_QUERIES = (
    *_tail(P95, "p95"),
    *_tail(P99, "p99"),
    _night(
        USD,
        "A",
        '"usd_per_month" AS "measured fleet", "planned_usd_per_month" AS "planned fleet"',
        ' AND "judged" = 1',
        "$col",
        "no fleet has a price",
    ),
    _night(
        BURNS,
        "A",
        '"burn_p95" AS "p95", "burn_p99" AS "p99", "burn_max_error_share" AS "errors"',
        ' AND "judged" = 1',
        "$col",
        _NO_SLO,
    ),
    _night(
        GAINS,
        "A",
        '"gain_mean" AS "mean", "gain_p95" AS "p95", "gain_p99" AS "p99"',
        ' AND "valid" = 1',
        "$tag_arm $col",
        "a design of one arm",
        "arm",
    ),
    _night(COUNTS, "A", '"requests", "errors"', "", "$tag_arm $col", by="arm"),
    PanelQuery(
        RUNS,
        "A",
        'SELECT "night", "run", "arm", "valid", "slo_met", "requests", "p95_ms", "p99_ms", '
        f'"usd_per_month", "planned_usd_per_month" FROM "night" WHERE {_ENTRY} '
        "ORDER BY time DESC LIMIT 200",
        format="table",
    ),
)
