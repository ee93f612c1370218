"""A finished run is replayed into a real InfluxDB: completely, and repeating changes nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.nightly.history import read_history
from experiments.nightly.points import night_points
from experiments.record.replayed import replayed
from experiments.record.telemetry import InfluxQuery
from experiments.tests.called import COMMAND, answer, call, refusal
from experiments.tests.influxdb import Influx
from experiments.tests.influxdb import influx as influx
from experiments.tests.load_fixture import children
from experiments.tests.nightly_fixture import made_up_run, write_nights
from experiments.tests.report_fixture import fake_run
from experiments.tests.started import LIMIT_S, told
from grafana.verify import empty_panels, verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(seed=5, measure_s=30.0).write(tmp_path_factory.mktemp("run") / "r")


def _counts(influx: Influx, run: str) -> dict[str, int]:
    query = InfluxQuery(influx.url)
    try:
        return query.points(run)
    finally:
        query.close()


def test_every_panel_of_the_dashboard_shows_a_replayed_run(influx: Influx, folder: Path) -> None:
    answer("replay", str(folder), "--influxdb", influx.url)
    run = replayed(folder)
    name, run_name = run.names["experiment"], run.names["run"]
    results = verify(influx.url, "sparecraft", name, run_name, "experiment")
    assert empty_panels(results) == ["Failed requests by outcome"], "an arbiter's are in no file"
    rows = dict(results)
    panels = ("Burn rate of the p95", "Burn rate of the p99", "USD per million good requests",
             "annotation: Verdicts", "Extra work of replicas, tier $tier")  # fmt: skip
    assert [panel for panel in panels if not rows[panel]] == []


def test_replaying_twice_changes_nothing(influx: Influx, folder: Path) -> None:
    run_name = replayed(folder).names["run"]
    for _ in range(2):
        call("replay", str(folder), "--influxdb", influx.url)
        counts = _counts(influx, run_name)
        requests = pl.read_parquet(folder / "requests.parquet")
        assert counts["request"] == requests.height
        assert counts["slo"] == counts["cost"] > 0


def test_a_replayed_run_costs_what_the_fleet_costs_while_load_runs(folder: Path) -> None:
    run = replayed(folder)
    costs = [point for point in run.points() if point.measurement == "cost"]
    ok_requests = (
        pl.read_parquet(folder / "requests.parquet").filter(pl.col("outcome") == "ok").height
    )
    assert sum(int(str(point.fields["good"])) for point in costs) == ok_requests
    seconds = sum(float(str(point.fields["usd"])) for point in costs) / (
        float(str(costs[0].fields["usd_per_hour"])) / 3600
    )
    phases = run.manifest["spec"]["phases"]
    blocks = len({int(row) for row in pl.read_parquet(folder / "requests.parquet")["repeat"]})
    assert seconds == pytest.approx(blocks * (phases["warm_up"] + phases["measure"]), rel=0.1)


def test_points_come_as_they_are_asked_for(folder: Path) -> None:
    points = run_points = replayed(folder).points()
    assert next(points).measurement == "request"
    assert run_points is points, "nothing is a list of everything"


def test_nights_are_replayed_too(influx: Influx, tmp_path: Path) -> None:
    write_nights(tmp_path, [made_up_run(1), made_up_run(2)])
    assert answer("replay", str(tmp_path), "--influxdb", influx.url)["points"] == 4
    points = list(night_points(read_history(tmp_path)))
    assert points[1].fields["burn_p95"] == 0.4
    assert points[1].fields["slo_p99_ms"] == 1000.0
    assert [point.fields["judged"] for point in points] == [0, 1, 0, 1]


def test_its_own_influxdb_ends_with_the_command(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "out"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "replay", str(folder)], stdout=output, stderr=output,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    url = told(process, log, r"--influxdb (http://127\.0\.0\.1:\d+)")
    told(process, log, "(until Ctrl-C)")
    [influxd_pid] = children(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0
    assert not Path(f"/proc/{influxd_pid}").exists()
    assert list(tmp_path.glob("sparecraft-replay-*")) == []
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)


@pytest.mark.parametrize(
    "name", ["hosts.parquet", "arbiters.parquet", "requests.parquet", "events.jsonl"]
)
def test_a_damaged_file_of_a_run_is_named(tmp_path: Path, name: str) -> None:
    file = fake_run(measure_s=40.0).write(tmp_path / "run") / name
    file.write_bytes(b'{"what": \n' + file.read_bytes()[:100])
    with pytest.raises(InputError) as refused:
        list(replayed(file.parent).points())
    assert refused.value.place in (str(file), f"{file} line 1")


def test_a_run_that_began_at_no_time_is_named(tmp_path: Path) -> None:
    file = fake_run(measure_s=40.0).write(tmp_path / "run") / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "started_at": "yesterday"}))
    assert refusal("replay", str(file.parent)).place == str(file)


def test_what_cannot_be_replayed_says_so(folder: Path, tmp_path: Path) -> None:
    assert refusal("replay", str(tmp_path)).exit_code == 2
    error = refusal("replay", str(folder), "--influxdb", "http://127.0.0.1:9")
    assert isinstance(error, EnvironmentMissing)
