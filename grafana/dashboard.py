"""Draws the dashboard "Sparecraft experiment": panels around the queries of grafana.queries."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models import common, dashboard, units

from grafana import queries
from grafana.queries import ANNOTATIONS, DATASOURCE_UID, VARIABLES, Annotation, PanelQuery, Variable

UID = "sparecraft-experiment"  # bookmarks and the home page hang on it: never change it
_DATASOURCE = dashboard.DataSourceRef(type_val="influxdb", uid=DATASOURCE_UID)
_HEIGHT = 8
_GAP_MS = 30_000  # a line is not drawn across a longer silence
_ARM_COLOURS = (("^baseline", "orange"), ("^spare", "blue"))
_PERCENTILE_DASHES = ((" p50$", (2, 6)), (" p95$", (10, 6)))


class _Target(Builder[UnknownDataquery]):
    """A raw InfluxQL target; the SDK has no builder for InfluxDB."""

    def __init__(self, query: PanelQuery) -> None:
        self._query = query

    def build(self) -> UnknownDataquery:
        return UnknownDataquery(
            {
                "refId": self._query.ref,
                "datasource": _DATASOURCE.to_json(),
                "rawQuery": True,
                "query": self._query.influxql,
                "resultFormat": self._query.format,
                "alias": self._query.alias,
            }
        )


class _AnnotationQuery(dashboard.AnnotationQuery):
    """The SDK knows only the targets of Grafana's own annotation store; ours is a query."""

    def __init__(self, layer: Annotation) -> None:
        super().__init__(
            name=layer.name, datasource=_DATASOURCE, enable=True, icon_color=layer.colour
        )
        self._target = _Target(layer.query).build()

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "target": self._target}


class _AnnotationBuilder(Builder[dashboard.AnnotationQuery]):
    def __init__(self, layer: Annotation) -> None:
        self._layer = layer

    def build(self) -> dashboard.AnnotationQuery:
        return _AnnotationQuery(self._layer)


@dataclass(frozen=True)
class Chart:
    """A chart over time. `axis` names the vertical axis; `log` suits latencies, which span decades;
    `mirrored` draws query B downwards; `arms` colours and dashes by arm and percentile."""

    title: str
    description: str
    unit: str
    axis: str
    width: int = 12
    log: bool = False
    mirrored: bool = False
    arms: bool = False
    many: bool = False


_LOAD_CHARTS = (
    Chart(
        queries.RATE,
        "Requests by their intended start, and those of them answered well (status, content and "
        "in time). Where the lines part, users did not get their page. The last bucket is still "
        "filling.",
        units.RequestsPerSecond,
        "Requests per second",
    ),
    Chart(
        queries.LATENCY,
        "From the intended start to the last byte, failed requests included; a time-out enters at "
        "its limit. A bucket of 15 s holds few requests: the lines show when the tail moved, the "
        "report says by how much, with sample counts.",
        units.Milliseconds,
        "Latency (log scale)",
        log=True,
        arms=True,
    ),
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
_ARBITER_CHARTS = (
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
)
_HOST_CHARTS = (
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


def _targets(title: str) -> list[PanelQuery]:
    known = [*queries.panel_queries(), *queries.statistics_queries()]
    return [query for query in dict.fromkeys(known) if query.panel == title]


def _legend(chart: Chart) -> common_builders.VizLegendOptions:
    placement = common.LegendPlacement.RIGHT if chart.many else common.LegendPlacement.BOTTOM
    mode = common.LegendDisplayMode.TABLE if chart.many else common.LegendDisplayMode.LIST
    legend = common_builders.VizLegendOptions().show_legend(True).display_mode(mode)
    return legend.placement(placement).calcs(["mean", "max"])


def time_series(chart: Chart, panel_id: int) -> timeseries.Panel:
    targets = _targets(chart.title)
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel = (
        timeseries.Panel()
        .id(panel_id)
        .title(chart.title)
        .description(chart.description)
        .datasource(_DATASOURCE)
        .targets([_Target(query) for query in targets])
        .interval(f"{max(query.interval_s for query in targets)}s")
        .span(chart.width)
        .height(_HEIGHT)
        .unit(chart.unit)
        .axis_label(chart.axis)
        .legend(_legend(chart))
        .tooltip(tooltip.sort(common.SortOrder.DESCENDING))
        .span_nulls(_GAP_MS)
        .fill_opacity(0)
    )
    if chart.log:
        scale = common_builders.ScaleDistributionConfig()
        panel.scale_distribution(scale.type(common.ScaleDistribution.LOG).log(10))
    elif not chart.mirrored:
        panel.min(0)
    if chart.mirrored:
        mirror = dashboard.DynamicConfigValue("custom.transform", "negative-Y")
        panel.override_by_query("B", [mirror])
    if chart.arms:
        _style_arms(panel)
    return panel


def _style_arms(panel: timeseries.Panel) -> None:
    for pattern, colour in _ARM_COLOURS:
        value = {"mode": "shades", "fixedColor": colour}
        panel.override_by_regexp(pattern, [dashboard.DynamicConfigValue("color", value)])
    for pattern, dash in _PERCENTILE_DASHES:
        style = {"fill": "dash", "dash": list(dash)}
        panel.override_by_regexp(pattern, [dashboard.DynamicConfigValue("custom.lineStyle", style)])


def _latency_table(panel_id: int) -> table.Panel:
    without_time = dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True}}
    )
    count_unit = dashboard.DynamicConfigValue("unit", units.Short)
    return (
        table.Panel()
        .id(panel_id)
        .title(queries.TABLE)
        .description(
            "Over the whole range shown, from the intended start, failed requests included. A "
            "percentile with fewer than 10 requests beyond it (p99: fewer than 1000 in all) is a "
            "guess."
        )
        .datasource(_DATASOURCE)
        .targets([_Target(query) for query in _targets(queries.TABLE)])
        .span(8)
        .height(_HEIGHT)
        .unit(units.Milliseconds)
        .decimals(0)
        .with_transformation(without_time)
        .override_by_name("requests", [count_unit])
    )


def _variable(variable: Variable) -> dashboard_builders.QueryVariable:
    sort = dashboard.VariableSort
    built = (
        dashboard_builders.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(_DATASOURCE)
        .query(variable.influxql)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(sort.ALPHABETICAL_DESC if variable.newest_first else sort.ALPHABETICAL_ASC)
        .multi(variable.all_at_once)
        .include_all(variable.all_at_once)
    )
    if variable.all_at_once:
        built.current(dashboard.VariableOption(True, ["All"], ["$__all"]))
    return built


def empty_board(uid: str, title: str, description: str) -> dashboard_builders.Dashboard:
    """A dashboard without panels: variables, annotations, time."""
    return (
        dashboard_builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["sparecraft"])
        .timezone("utc")  # runs are named by UTC
        .time("now-15m", "now")
        .refresh("5s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .variables([_variable(variable) for variable in VARIABLES])
        .annotations([_AnnotationBuilder(layer) for layer in ANNOTATIONS])
    )


def experiment_dashboard() -> dashboard.Dashboard:
    """The dashboard, positioned and numbered; panel ids follow the order of appearance."""
    ids = iter(range(1, 100))
    board = empty_board(
        UID,
        "Sparecraft experiment",
        "One experiment as it runs: load, arbiters, machines, and what disturbs them.",
    )
    board.with_row(dashboard_builders.Row("Load, as users see it").id(next(ids)))
    for chart in _LOAD_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    board.with_panel(_latency_table(next(ids)))
    board.with_row(dashboard_builders.Row("Arbiter of tier $tier").id(next(ids)).repeat("tier"))
    for chart in _ARBITER_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    board.with_row(dashboard_builders.Row("Machines").id(next(ids)))
    for chart in _HOST_CHARTS:
        board.with_panel(time_series(chart, next(ids)))
    return board.build()
