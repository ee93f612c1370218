"""The InfluxQL of the dashboards, apart from their panels.

Every query is written with Grafana's macros, so that a test, `grafana.verify` and `sparecraft
watch` can run exactly the same. No other module has a query. Read `panel_query.py`
first; SLO and cost are in `queries_slo.py`, nights in `queries_nights.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from grafana.panel_query import (
    THESE_HOSTS,
    THIS_RUN,
    THIS_TIER,
    PanelQuery,
    by_bucket,
    rate_of,
    rate_of_points,
)
from grafana.queries_nights import NIGHT_QUERIES
from grafana.queries_slo import COST_QUERIES, EXTRA, SLO_QUERIES

UID = "sparecraft-experiment"  # bookmarks and the home page hang on it: never change it
MARGIN_MS = 30_000  # machines report before the first request and after the last


def _host(
    panel: str, field: str, ref: str = "A", suffix: str = "", may_be_empty: str = ""
) -> PanelQuery:
    query = by_bucket(f'mean("{field}")', "host", THESE_HOSTS, "machine")
    alias = f"$tag_machine{suffix}"
    return PanelQuery(panel, ref, query, alias, interval_s=2, may_be_empty=may_be_empty)


def _server(panel: str, column: str, interval_s: int, may_be_empty: str = "") -> PanelQuery:
    query = by_bucket(column, "arbiter_server", THIS_TIER, "server")
    return PanelQuery(
        panel, "A", query, "$tag_server", interval_s=interval_s, may_be_empty=may_be_empty
    )


def _tier(panel: str, ref: str, field: str, alias: str, interval_s: int) -> PanelQuery:
    query = by_bucket(f'mean("{field}")', "arbiter", THIS_TIER, "tier")
    return PanelQuery(panel, ref, query, alias, interval_s=interval_s)


def _tier_rate(
    panel: str, ref: str, counter: str, alias: str, may_be_empty: str = ""
) -> PanelQuery:
    query = by_bucket(rate_of(counter), "arbiter", THIS_TIER, "tier")
    return PanelQuery(panel, ref, query, alias, interval_s=5, may_be_empty=may_be_empty)


RATE = "Offered and achieved rate"
FAILURES = "Failed requests by outcome"
LAG = "Generator lag"
TABLE = "Latency per arm, warm-up left out"
SERVER_LATENCY = "Latency per server, tier $tier"
IN_FLIGHT = "In flight per server, tier $tier"
TOKENS = "Tokens in use and in total, tier $tier"
REPLICAS = "Replicas sent and wasted, tier $tier"
CPU = "CPU, share of the machine's cap"
THROTTLED = "CPU throttled"
NIC = "Data network"
DISK = "Disk"
MEMORY = "Memory"
FAULTS_ACTIVE = "Faults active"

_LOAD = (
    PanelQuery(RATE, "A", rate_of_points(THIS_RUN), alias="offered", interval_s=5),
    PanelQuery(
        RATE,
        "B",
        rate_of_points(f"{THIS_RUN} AND \"outcome\" = 'ok'"),
        alias="answered well",
        interval_s=5,
    ),
    *SLO_QUERIES,
    PanelQuery(
        FAILURES,
        "A",
        rate_of_points(f"{THIS_RUN} AND \"outcome\" <> 'ok'", "outcome"),
        alias="$tag_outcome",
        interval_s=5,
        may_be_empty="no request failed",
    ),
    PanelQuery(
        FAILURES,
        "B",
        by_bucket(rate_of("failed"), "arbiter", THIS_RUN, "tier"),
        alias="failed at arbiter $tag_tier",
        interval_s=5,
    ),
    PanelQuery(
        LAG,
        "A",
        by_bucket('percentile("lag_ms", 99) AS "p99", max("lag_ms") AS "max"', "request", THIS_RUN),
        alias="$col",
        interval_s=15,
    ),
    PanelQuery(
        TABLE,
        "A",
        'SELECT count("repeat") AS "requests", mean("latency_ms") AS "mean", '
        'percentile("latency_ms", 50) AS "p50", percentile("latency_ms", 90) AS "p90", '
        'percentile("latency_ms", 95) AS "p95", percentile("latency_ms", 99) AS "p99", '
        'max("latency_ms") AS "max" FROM "request" '
        f'WHERE {THIS_RUN} AND "phase" <> \'warm-up\' GROUP BY "arm"',
        format="table",
    ),
    PanelQuery(
        TABLE,
        "B",
        'SELECT count("repeat") AS "failed" FROM "request" '
        f'WHERE {THIS_RUN} AND "phase" <> \'warm-up\' AND "outcome" <> \'ok\' GROUP BY "arm"',
        format="table",
        may_be_empty="no request failed",
    ),
)

_ARBITERS = (
    _server(SERVER_LATENCY, 'mean("mean_latency_ms")', interval_s=2),
    _server(IN_FLIGHT, 'mean("in_flight")', interval_s=2),
    _tier(TOKENS, "A", "tokens_in_use", "in use", interval_s=2),
    _tier(TOKENS, "B", "tokens_total", "in total", interval_s=2),
    _tier_rate(REPLICAS, "A", "replicas_sent", "sent"),
    _tier_rate(REPLICAS, "B", "replicas_wasted", "wasted"),
    EXTRA,
)

# The arbiters' own statistics: a dashboard of its own (grafana/statistics.py).
ARRIVALS = "Requests and connections, tier $tier"
REQUEST_LATENCY = "Latency of the last minute, tier $tier"
PROCESSING = "Processing time per request, tier $tier"
TOKEN_HOLD = "Token hold time, tier $tier"
WASTED = "Wasted work, tier $tier"
AT_SERVER = "Requests at each server, tier $tier"
SERVER_ERRORS = "Errors per server, tier $tier"
ALIVE = "Servers alive, tier $tier"
AGREEMENT = "Replies compared, tier $tier"
CONTRADICTED = "Contradicted per server, tier $tier"
_PERCENTILES = ("p50", "p95", "p99", "p99_9")
_VERDICTS = ("equal", "different", "not_compared", "refused")
_NOT_COMPARED = "a run of before arbiters compared replies, or of MySQL alone"

_STATISTICS = (
    _tier_rate(ARRIVALS, "A", "requests", "requests"),
    _tier_rate(ARRIVALS, "B", "connections", "connections"),
    PanelQuery(
        REQUEST_LATENCY,
        "A",
        by_bucket(
            ", ".join(f'mean("{name}_ms") AS "{name}"' for name in ("mean", *_PERCENTILES)),
            "arbiter",
            THIS_TIER,
        ),
        alias="$col",
        interval_s=2,
    ),
    _server(PROCESSING, 'mean("processing_ms")', interval_s=5),
    _tier(TOKEN_HOLD, "A", "token_hold_ms", "mean", interval_s=5),
    _tier(WASTED, "A", "wasted_percent", "of all server time", interval_s=5),
    _server(AT_SERVER, f"{rate_of('busy_us')} / 1000000", interval_s=5),
    _server(SERVER_ERRORS, rate_of("errors"), interval_s=5),
    *(
        _tier_rate(AGREEMENT, ref, counter, counter.replace("_", " "), _NOT_COMPARED)
        for ref, counter in zip("ABCD", _VERDICTS, strict=True)
    ),
    _server(CONTRADICTED, rate_of("minority"), interval_s=5, may_be_empty=_NOT_COMPARED),
    _server(ALIVE, 'min("alive")', interval_s=2),
)

# Fields that an agent leaves out if its kernel has no cgroup for them.
_NO_CPU_CAP = "the kernel tells no throttling of the machine"
_NO_DISK = "the kernel tells no disk traffic of the machine"
_HOSTS = (
    _host(CPU, "cpu_percent"),
    _host(THROTTLED, "throttled_percent", may_be_empty=_NO_CPU_CAP),
    _host(NIC, "net_rx_mbps", "A", " rx"),
    _host(NIC, "net_tx_mbps", "B", " tx"),
    _host(DISK, "disk_read_mbps", "A", " read", _NO_DISK),
    _host(DISK, "disk_write_mbps", "B", " write", _NO_DISK),
    _host(MEMORY, "memory_mb"),
    _host(FAULTS_ACTIVE, "faults_active"),
)


@dataclass(frozen=True)
class Annotation:
    """One layer of shaded windows, drawn on every panel."""

    name: str
    colour: str
    query: PanelQuery


def _annotation(name: str, colour: str, kinds: tuple[str, ...], may_be_empty: str) -> Annotation:
    condition = " OR ".join(f"\"what\" = '{kind}'" for kind in kinds)
    # Grafana's standard annotations: time, timeEnd, title, text and tags, by column name.
    query = (
        'SELECT "end_ms" AS "timeEnd", "title", "text", "kind" AS "tags" FROM "event" '
        f"WHERE {THIS_RUN} AND ({condition})"
    )
    panel = f"annotation: {name}"
    return Annotation(
        name, colour, PanelQuery(panel, "Anno", query, format="table", may_be_empty=may_be_empty)
    )


ANNOTATIONS = (
    _annotation("Faults", "red", ("fault", "machine"), "the experiment injects no fault"),
    _annotation("Interference", "orange", ("interference",), "the pattern is none, or no run fell"),
    _annotation("Phases", "blue", ("phase",), ""),
    _annotation("Arms", "purple", ("arm",), ""),
    _annotation("Verdicts", "green", ("verdict",), "written by a runner that did not tell it yet"),
)


@dataclass(frozen=True)
class Variable:
    """A variable of a dashboard and the query of its values; `newest_first` sorts descending."""

    name: str
    label: str
    influxql: str
    newest_first: bool = False
    all_at_once: bool = False


VARIABLES = (
    Variable("experiment", "Experiment", 'SHOW TAG VALUES FROM "request" WITH KEY = "experiment"'),
    Variable(
        "run",
        "Run",
        'SHOW TAG VALUES FROM "request" WITH KEY = "run" WHERE "experiment" = \'$experiment\'',
        newest_first=True,
    ),
    Variable(
        "tier",
        "Tier",
        'SHOW TAG VALUES FROM "arbiter" WITH KEY = "tier" '
        "WHERE \"experiment\" = '$experiment' AND \"run\" = '$run'",
        all_at_once=True,
    ),
)
NIGHT_VARIABLES = (Variable("entry", "Design", 'SHOW TAG VALUES FROM "night" WITH KEY = "entry"'),)


def panel_queries() -> list[PanelQuery]:
    """Return every query of the experiment's dashboard.

    Panels come in the order of appearance, then annotations and variables.
    """
    return [*_LOAD, *COST_QUERIES, *_ARBITERS, *_HOSTS, *_around()]


def statistics_queries() -> list[PanelQuery]:
    return [*_STATISTICS, *_around()]


def night_queries() -> list[PanelQuery]:
    return [*NIGHT_QUERIES, *map(_values, NIGHT_VARIABLES)]


def _around() -> list[PanelQuery]:
    """Return the shared queries of both dashboards of a run: annotations and variables."""
    return [*(layer.query for layer in ANNOTATIONS), *map(_values, VARIABLES)]


def _values(variable: Variable) -> PanelQuery:
    return PanelQuery(f"variable: {variable.name}", "Var", variable.influxql, format="table")


def run_path(experiment: str, run: str, first_ms: int, last_ms: int) -> str:
    """Return the path of the experiment's dashboard in Grafana, for the time of the whole run."""
    return (
        f"/d/{UID}?var-experiment={experiment}&var-run={run}"
        f"&from={first_ms - MARGIN_MS}&to={last_ms + MARGIN_MS}"
    )
