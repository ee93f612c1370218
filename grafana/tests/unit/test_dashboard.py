"""The dashboard's JSON, judged without a Grafana; the macro expander does what Grafana does."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import units

from grafana import build, nights, statistics
from grafana.macros import MacroError, View, expand
from grafana.panel_query import DATASOURCE_UID, PanelQuery
from grafana.queries import (
    ANNOTATIONS,
    NIGHT_VARIABLES,
    UID,
    VARIABLES,
    Annotation,
    Variable,
    night_queries,
    panel_queries,
    statistics_queries,
)
from grafana.verify import queries_of

_CONTAINER = Path(build.__file__).parent / "container" / "etc" / "grafana"


_SCHEMAS = Path(__file__).parents[1] / "data" / "schema"


@dataclass(frozen=True)
class _Expected:
    queries: list[PanelQuery]
    variables: tuple[Variable, ...] = VARIABLES
    annotations: tuple[Annotation, ...] = ANNOTATIONS


_BOARDS = {
    UID: _Expected(panel_queries()),
    statistics.UID: _Expected(statistics_queries()),
    nights.UID: _Expected(night_queries(), NIGHT_VARIABLES, ()),
}


@pytest.fixture(params=_BOARDS)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads((build.GENERATED / f"{request.param}.json").read_text())
    return dashboard


def _panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_committed_json_is_what_the_code_makes() -> None:
    assert build.stale() == ""


def test_a_changed_file_is_reported_as_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in build.render().items():
        (tmp_path / path.name).write_text(text.replace("now-15m", "now-1h"))
    monkeypatch.setattr(build, "GENERATED", tmp_path)
    added = [line for line in build.stale().splitlines() if line.startswith("+ ")]
    assert any('"from": "now-15m"' in line for line in added)


def test_the_json_survives_the_sdks_own_schema(board: dict[str, Any]) -> None:
    """The SDK's model keeps all that we write except annotation targets, which it knows only for
    Grafana's own store."""
    copy = json.loads(json.dumps(models.Dashboard.from_json(board), cls=JSONEncoder))
    for dashboard in (board, copy):
        for annotation in dashboard["annotations"]["list"]:
            annotation.pop("target")
    assert copy == board


def _schema(name: str, definition: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_SCHEMAS / f"{name}.jsonschema.json").read_text())
    for kind, key in (("DynamicConfigValue", "value"), ("MatcherConfig", "options")):
        if kind in schema["definitions"]:  # "any" in Grafana's CUE, of which this made "object"
            schema["definitions"][kind]["properties"][key] = {}
    return {**schema, "$ref": f"#/definitions/{definition}"} if definition else schema


def test_the_json_is_what_grafanas_own_schema_allows(board: dict[str, Any]) -> None:
    """Keys that it does not know are refused, in the dashboard and in what its panels' plugins
    read. Annotation targets are a query's here; the schema knows those of Grafana's own store."""
    for annotation in board["annotations"]["list"]:
        annotation.pop("target")
    jsonschema.validate(board, _schema("dashboard"))
    for panel in _panels(board):
        jsonschema.validate(panel["options"], _schema(panel["type"], "Options"))
        if panel["type"] == "timeseries":
            custom = panel["fieldConfig"]["defaults"]["custom"]
            jsonschema.validate(custom, _schema("timeseries", "FieldConfig"))


def test_grafanas_schema_refuses_a_misspelt_key() -> None:
    [board, *_] = [json.loads(text) for text in build.render().values()]
    board["panels"][1]["fieldConfig"]["defaults"]["unti"] = "ms"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(board, _schema("dashboard"))


def test_uids_are_the_ones_that_links_and_provisioning_name(board: dict[str, Any]) -> None:
    assert board["uid"] in ("sparecraft-experiment", "sparecraft-arbiters", "sparecraft-nights")
    datasource = (_CONTAINER / "provisioning/datasources/sparecraft.yaml").read_text()
    assert re.search(rf"^ +uid: {DATASOURCE_UID}$", datasource, re.MULTILINE)
    assert "url: ${INFLUXDB_URL}" in datasource
    assert f"/{UID}.json" in (_CONTAINER / "grafana.ini").read_text()


def test_the_home_dashboard_lies_in_the_provisioned_folder() -> None:
    provider = (_CONTAINER / "provisioning/dashboards/sparecraft.yaml").read_text()
    [folder] = re.findall(r"^ +path: (\S+)$", provider, re.MULTILINE)
    home = f"default_home_dashboard_path = {folder}/{UID}.json"
    assert home in (_CONTAINER / "grafana.ini").read_text().splitlines()


def test_every_datasource_reference_is_the_provisioned_one(board: dict[str, Any]) -> None:
    references = re.findall(r'"datasource": (\{[^}]*\})', json.dumps(board))
    assert len(references) > len(_panels(board))
    assert {json.loads(reference)["uid"] for reference in references} == {DATASOURCE_UID}


def test_panel_ids_are_unique(board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert 0 not in ids


def test_no_two_panels_overlap_and_none_leaves_the_grid(board: dict[str, Any]) -> None:
    positions = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    for title, position in positions:
        assert position["x"] + position["w"] <= 24, title
    for (title_a, a), (title_b, b) in combinations(positions, 2):
        apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart_y = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart_x or apart_y, (title_a, title_b)


def test_rows_of_panels_fill_the_width(board: dict[str, Any]) -> None:
    widths: dict[int, int] = {}
    for panel in board["panels"]:
        position = panel["gridPos"]
        widths[position["y"]] = widths.get(position["y"], 0) + position["w"]
    assert set(widths.values()) == {24}


def test_every_query_is_drawn_exactly_once(board: dict[str, Any]) -> None:
    drawn = [(p["title"], t["refId"], t["query"]) for p in _panels(board) for t in p["targets"]]
    drawn += [
        (f"annotation: {layer['name']}", layer["target"]["refId"], layer["target"]["query"])
        for layer in board["annotations"]["list"]
    ]
    drawn += [(f"variable: {v['name']}", "Var", v["query"]) for v in board["templating"]["list"]]
    queries = _BOARDS[board["uid"]].queries
    expected = [(query.panel, query.ref, query.influxql) for query in queries]
    assert sorted(drawn) == sorted(expected)


def test_every_panel_has_description_known_unit_and_axis_title(board: dict[str, Any]) -> None:
    known_units = {value for value in vars(units).values() if isinstance(value, str)}
    for panel in _panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        assert len(panel["description"]) > 10, panel["title"]
        assert defaults["unit"] in known_units, panel["title"]
        if panel["type"] == "timeseries":
            assert defaults["custom"]["axisLabel"], panel["title"]


def test_panels_about_one_tier_are_repeated_for_each(board: dict[str, Any]) -> None:
    repeated = ""
    for panel in board["panels"]:
        if panel["type"] == "row":
            repeated = panel.get("repeat", "")
            continue
        per_tier = any("$tier" in target["query"] for target in panel["targets"])
        assert per_tier == (repeated == "tier") == ("$tier" in panel["title"]), panel["title"]


def test_crosshair_is_shared_and_variables_are_there(board: dict[str, Any]) -> None:
    assert board["graphTooltip"] == models.DashboardCursorSync.CROSSHAIR
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == [variable.name for variable in _BOARDS[board["uid"]].variables]


def test_annotations_are_regions_by_grafanas_standard_columns(board: dict[str, Any]) -> None:
    layers = board["annotations"]["list"]
    assert [layer["name"] for layer in layers] == [
        annotation.name for annotation in _BOARDS[board["uid"]].annotations
    ]
    for layer in layers:
        assert layer["enable"] is True
        assert layer["target"]["resultFormat"] == "table"
        assert {'"timeEnd"', '"title"', '"text"', '"tags"'} <= set(
            re.findall(r'"\w+"', layer["target"]["query"])
        )
        # With this flag Grafana would take its legacy path, which finds no end column.
        assert "fromAnnotations" not in layer["target"]


_VIEW = View("mediawiki-noisy", "20260101T120000Z", 1000, 2000, tier="web")


def test_interval_in_milliseconds_is_not_eaten_by_interval() -> None:
    assert expand("$__interval_ms $__interval", _VIEW, 15) == "15000 15s"


def test_time_filter_is_grafanas() -> None:
    assert expand("$timeFilter", _VIEW, 1) == "time >= 1000ms and time <= 2000ms"


@pytest.mark.parametrize("value", ["", "it's", "a b", "$run", "web/1", 'x"'])
def test_a_value_that_could_end_its_quotes_is_refused(value: str) -> None:
    with pytest.raises(MacroError, match="tier"):
        expand("'$tier'", View("e", "r", 0, 1, tier=value), 1)


def test_an_unknown_macro_is_refused() -> None:
    with pytest.raises(MacroError, match=r"\$__from"):
        expand("SELECT $__from", _VIEW, 1)


def test_no_query_keeps_a_macro_after_expansion() -> None:
    for query in queries_of("both"):
        assert not re.search(r"\$(?!/)", expand(query.influxql, _VIEW, query.interval_s))


def test_variables_stand_between_slashes_only_in_regular_expressions() -> None:
    """Grafana escapes a variable between any two slashes, also those of divisions."""
    for query in queries_of("both"):
        without_regex = re.sub(r"=~ /\^\$\w+\$/", "", query.influxql)
        assert not re.search(r"/[^/]*\$(experiment|run|tier)[^/]*/", without_regex), query.panel


def test_cumulative_counters_are_read_as_rates() -> None:
    counters = (
        *("failed", "replicas_sent", "replicas_wasted", "requests", "answered", "wins"),
        *("equal", "different", "not_compared", "refused"),
    )
    for query in queries_of("both"):
        for counter in counters:
            if f'("{counter}")' in query.influxql:
                assert f'non_negative_derivative(max("{counter}"), 1s)' in query.influxql
