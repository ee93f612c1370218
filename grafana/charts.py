"""Panels and empty dashboards around queries: grafana-foundation-sdk builders."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models import common, dashboard

from grafana.panel_query import DATASOURCE_UID, PanelQuery
from grafana.queries import (
    ANNOTATIONS,
    VARIABLES,
    Annotation,
    Variable,
    night_queries,
    panel_queries,
    statistics_queries,
)

DATASOURCE = dashboard.DataSourceRef(type_val="influxdb", uid=DATASOURCE_UID)
HEIGHT = 8
_GAP_MS = 30_000  # a line is not drawn across a longer silence
_ARM_COLOURS = (
    ("^baseline", "orange"),
    ("^chosen", "green"),
    ("^(spare|replicated|copied)", "blue"),
)
_DASHES = (
    (" (p50|median)$", (2, 6)),
    (" p95$", (10, 6)),
    (" 5 min$", (10, 6)),
    (" (low|high)$", (2, 6)),
)
_SLO_LINES = "^SLO "


class Target(Builder[UnknownDataquery]):
    """A raw InfluxQL target; the SDK has no builder for InfluxDB."""

    def __init__(self, query: PanelQuery) -> None:
        self._query = query

    def build(self) -> UnknownDataquery:
        """As Grafana's InfluxDB plugin reads it."""
        return UnknownDataquery(
            {
                "refId": self._query.ref,
                "datasource": DATASOURCE.to_json(),
                "rawQuery": True,
                "query": self._query.influxql,
                "resultFormat": self._query.format,
                "alias": self._query.alias,
            }
        )


class _AnnotationQuery(dashboard.AnnotationQuery):
    """A query of annotations; the SDK has only targets of Grafana's own annotation store."""

    def __init__(self, layer: Annotation) -> None:
        super().__init__(
            name=layer.name, datasource=DATASOURCE, enable=True, icon_color=layer.colour
        )
        self._target = Target(layer.query).build()

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "target": self._target}


class AnnotationBuilder(Builder[dashboard.AnnotationQuery]):
    """A layer of windows."""

    def __init__(self, layer: Annotation) -> None:
        self._layer = layer

    def build(self) -> dashboard.AnnotationQuery:
        """Return the layer, with its query."""
        return _AnnotationQuery(self._layer)


@dataclass(frozen=True)
class Chart:
    """A chart over time.

    `axis` is the title of the vertical axis. `log` suits latencies, which span decades. `mirrored`
    draws query B downwards. `arms` sets colours and dashes by arm and percentile. `limit` is a
    horizontal line. `points` draws values that come once a night.
    """

    title: str
    description: str
    unit: str
    axis: str
    width: int = 12
    log: bool = False
    mirrored: bool = False
    arms: bool = False
    many: bool = False
    limit: float | None = None
    points: bool = False


def targets(title: str) -> list[PanelQuery]:
    known = [*panel_queries(), *statistics_queries(), *night_queries()]
    return [query for query in dict.fromkeys(known) if query.panel == title]


def _legend(chart: Chart) -> common_builders.VizLegendOptions:
    placement = common.LegendPlacement.RIGHT if chart.many else common.LegendPlacement.BOTTOM
    mode = common.LegendDisplayMode.TABLE if chart.many else common.LegendDisplayMode.LIST
    legend = common_builders.VizLegendOptions().show_legend(True).display_mode(mode)
    return legend.placement(placement).calcs(["mean", "max"])


def time_series(chart: Chart, panel_id: int) -> timeseries.Panel:
    drawn = targets(chart.title)
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel = (
        timeseries.Panel()
        .id(panel_id)
        .title(chart.title)
        .description(chart.description)
        .datasource(DATASOURCE)
        .targets([Target(query) for query in drawn])
        .interval(f"{max(query.interval_s for query in drawn)}s")
        .span(chart.width)
        .height(HEIGHT)
        .unit(chart.unit)
        .axis_label(chart.axis)
        .legend(_legend(chart))
        .tooltip(tooltip.sort(common.SortOrder.DESCENDING))
        .fill_opacity(0)
    )
    if chart.points:
        panel.show_points(common.VisibilityMode.ALWAYS).span_nulls(True)
    else:
        panel.span_nulls(_GAP_MS)
    if chart.limit is not None:
        _draw_limit(panel, chart.limit)
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
    for pattern, dash in _DASHES:
        panel.override_by_regexp(pattern, [_dashed(*dash)])
    red = dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "red"})
    panel.override_by_regexp(_SLO_LINES, [red, _dashed(10, 6)])


def _draw_limit(panel: timeseries.Panel, limit: float) -> None:
    steps = [dashboard.Threshold(0.0, "green"), dashboard.Threshold(limit, "red")]
    thresholds = dashboard_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE)
    panel.thresholds(thresholds.steps(steps))
    style = common_builders.GraphThresholdsStyleConfig()
    panel.thresholds_style(style.mode(common.GraphTresholdsStyleMode.DASHED))


def _dashed(*dash: int) -> dashboard.DynamicConfigValue:
    return dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": list(dash)})


def a_table(title: str, description: str, panel_id: int, width: int) -> table.Panel:
    """Return a table of a query's rows; its units have to be set."""
    return (
        table.Panel()
        .id(panel_id)
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .targets([Target(query) for query in targets(title)])
        .span(width)
        .height(HEIGHT)
        .show_header(True)
    )


def _variable(variable: Variable) -> dashboard_builders.QueryVariable:
    sort = dashboard.VariableSort
    built = (
        dashboard_builders.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(DATASOURCE)
        .query(variable.influxql)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(sort.ALPHABETICAL_DESC if variable.newest_first else sort.ALPHABETICAL_ASC)
        .multi(variable.all_at_once)
        .include_all(variable.all_at_once)
    )
    if variable.all_at_once:
        built.current(dashboard.VariableOption(True, ["All"], ["$__all"]))
    return built


def empty_board(
    uid: str,
    title: str,
    description: str,
    *,
    variables: tuple[Variable, ...] = VARIABLES,
    annotations: tuple[Annotation, ...] = ANNOTATIONS,
    since: str = "now-15m",
    refresh: str = "5s",
) -> dashboard_builders.Dashboard:
    """Return a dashboard without panels, with variables, annotations and time."""
    return (
        dashboard_builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["sparecraft"])
        .timezone("utc")  # runs are named by UTC
        .time(since, "now")
        .refresh(refresh)
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .variables([_variable(variable) for variable in variables])
        .annotations([AnnotationBuilder(layer) for layer in annotations])
    )
