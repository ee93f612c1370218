"""Every query of the dashboard against a real InfluxDB that holds a run."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from grafana import queries
from grafana.influx import Influx, QueryError, view_of
from grafana.macros import expand
from grafana.queries_slo import LATENCY
from grafana.tests.conftest import Filled
from grafana.tests.influxd import write
from grafana.tests.record import record
from grafana.verify import empty_panels, verify

_HOST_QUERIES = [query for query in queries.panel_queries() if '"host"' in query.influxql]


def _cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grafana.verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_every_panel_annotation_and_variable_returns_rows(filled: Filled) -> None:
    results = verify(filled.url, filled.database, filled.experiment, filled.run, "experiment")
    assert [panel for panel, _ in results] == list(
        dict.fromkeys(query.panel for query in queries.panel_queries())
    )
    assert empty_panels(results) == []
    # The run's kernel tells everything about a machine, so here no host panel has an excuse.
    rows = dict(results)
    assert [query.panel for query in _HOST_QUERIES if rows[query.panel] == 0] == []


def test_the_arbiters_dashboard_has_data_of_a_tune_in_every_panel(tuned: Filled) -> None:
    """A tune at r = (1, 1) and (1, 2) whose web tier was overloaded: there is waste, and errors."""
    results = verify(tuned.url, tuned.database, tuned.experiment, tuned.run, "arbiters")
    assert [panel for panel, _ in results] == list(
        dict.fromkeys(query.panel for query in queries.statistics_queries())
    )
    assert empty_panels(results) == []
    with Influx(tuned.url, tuned.database) as influx:
        view = replace(view_of(influx, tuned.experiment, tuned.run), tier="db")
        [wasted] = [q for q in queries.statistics_queries() if q.panel == queries.WASTED]
        [series] = influx.series(expand(wasted.influxql, view, wasted.interval_s))
        shares = [row[1] for row in series["values"]]
        assert min(shares) == 0 < max(shares) < 100
        [latency] = [q for q in queries.statistics_queries() if q.panel == queries.REQUEST_LATENCY]
        [series] = influx.series(expand(latency.influxql, view, latency.interval_s))
        for row in series["values"]:
            percentiles = [value for value in row[2:] if value is not None]
            assert percentiles == sorted(percentiles)


def test_a_panel_whose_measurement_is_absent_is_named(filled: Filled) -> None:
    database = "without_hosts"
    write(filled.url, [line for line in filled.lines if not line.startswith("host,")], database)
    empty = empty_panels(verify(filled.url, database, filled.experiment, filled.run, "experiment"))
    assert set(empty) == {query.panel for query in _HOST_QUERIES if not query.may_be_empty}


def test_offered_rate_adds_up_to_the_requests_of_the_run(filled: Filled) -> None:
    [offered, _] = [q for q in queries.panel_queries() if q.panel == queries.RATE]
    with Influx(filled.url, filled.database) as influx:
        view = view_of(influx, filled.experiment, filled.run)
        [series] = influx.series(expand(offered.influxql, view, offered.interval_s))
    total = sum(row[1] for row in series["values"]) * offered.interval_s
    assert total == pytest.approx(sum(line.startswith("request,") for line in filled.lines))


def test_an_arbiter_restart_gives_no_negative_rate(filled: Filled) -> None:
    database = "restarted"
    last_ns = max(int(line.rsplit(" ", 1)[1]) for line in filled.lines)
    restart = (
        f"arbiter,experiment={filled.experiment},run={filled.run},tier=web "
        f"replicas_sent=1i,replicas_wasted=0i,failed=0i {last_ns + 10 * 10**9}"
    )
    write(filled.url, [*filled.lines, restart], database)
    with Influx(filled.url, database) as influx:
        view = replace(view_of(influx, filled.experiment, filled.run), tier="web")
        for query in (q for q in queries.panel_queries() if q.panel == queries.REPLICAS):
            [series] = influx.series(expand(query.influxql, view, query.interval_s))
            assert min(row[1] for row in series["values"]) >= 0


def test_annotations_come_back_as_windows_that_end_after_they_start(filled: Filled) -> None:
    with Influx(filled.url, filled.database) as influx:
        view = view_of(influx, filled.experiment, filled.run)
        for layer in queries.ANNOTATIONS:
            rows = []
            for series in influx.series(expand(layer.query.influxql, view, 1)):
                assert series["columns"] == ["time", "timeEnd", "title", "text", "tags"]
                rows += series["values"]
            windows = [row for row in rows if row[1] is not None and row[1] > row[0] and row[2]]
            assert windows or layer.query.may_be_empty, layer.name


def test_an_unknown_run_is_refused_with_what_to_do(filled: Filled) -> None:
    with pytest.raises(QueryError, match="no requests of experiment"):
        verify(filled.url, filled.database, filled.experiment, "20000101T000000Z")


def test_the_command_takes_the_newest_run_and_prints_its_address(filled: Filled) -> None:
    process = _cli("--url", filled.url, "--dashboard", "experiment")
    assert process.returncode == 0, process.stderr
    assert f"var-run={filled.run}" in process.stdout.splitlines()[-1]
    assert LATENCY in process.stdout


def test_the_command_exits_2_for_an_unknown_run_without_a_traceback(filled: Filled) -> None:
    process = _cli("--url", filled.url, "--run", "it's")
    assert (process.returncode, "Traceback" in process.stderr) == (2, False)


def test_the_command_exits_3_when_influxdb_does_not_answer() -> None:
    with socket.socket() as bound:  # bound, never listening: a connection is refused
        bound.bind(("127.0.0.1", 0))
        process = _cli("--url", f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert process.returncode == 3
    assert "is the fleet up" in process.stderr


def test_a_recorded_run_shows_the_same_rows_as_the_one_it_was_recorded_from(filled: Filled) -> None:
    database = "recorded"
    lines = record(filled.url, filled.database, filled.experiment, filled.run)
    write(filled.url, lines, database)
    results = verify(filled.url, database, filled.experiment, filled.run, "experiment")
    assert results == verify(
        filled.url, filled.database, filled.experiment, filled.run, "experiment"
    )
