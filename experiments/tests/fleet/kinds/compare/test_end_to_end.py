"""The whole loop on real machines, as a user calls it, without and with trouble.

Each test runs `sparecraft` as a process on a fleet of two web and two database machines.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.result import read_result
from experiments.design import load_design
from experiments.kinds.compare.adopt import adopt
from experiments.paths import ROOT
from experiments.record.manifest import spec_json
from experiments.record.result import flat
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.testbed.runs import active
from experiments.tests.called import sparecraft
from experiments.tests.fleets import Started, nothing_stays
from experiments.tests.load_fixture import children
from experiments.tests.planned_fixture import small_prediction

pytestmark = pytest.mark.timeout(600)

DESIGN = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-small"
PLANNED = "tst-small-planned"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT, PLANNED):
        yield


def _start(results: Path, *arguments: str, design: Path = DESIGN) -> Started:
    return Started(results, "run", str(design), *arguments)


def _summary(results: Path) -> dict[str, Any]:
    return flat(read_result(results / EXPERIMENT / "latest"))


def test_a_run_measures_both_arms_reverts_plans_and_leaves_nothing(tmp_path: Path) -> None:
    output = _start(tmp_path).ended(0, 1)
    summary = _summary(tmp_path)
    for arm in ("baseline", "replicated"):
        assert summary["arms"][arm]["requests"] > 30
        assert summary["arms"][arm]["p50_ms"] > 1
    baseline, replicated = (summary["arms"][arm]["requests"] for arm in ("baseline", "replicated"))
    assert baseline == replicated, "both arms meet the same arrivals"
    assert summary["faults"]["injected"] >= 2
    assert summary["faults"]["reverted"] == summary["faults"]["injected"]
    assert summary["faults"]["fingerprint_clean"] is True
    doses = summary["faults"]["doses"]
    assert doses
    assert not any(row["answers"]["not measured"] for row in doses)
    assert summary["verdicts"]["revert"]["ok"], summary["verdicts"]
    assert summary["verdicts"]["cleanup"]["ok"], summary["verdicts"]
    assert summary["influx_points"] > baseline + replicated
    assert "feasible" in summary["plan"]
    folder = tmp_path / EXPERIMENT / "latest"
    hosts = pl.read_parquet(folder / "hosts.parquet")
    assert {"web-1", "web-2", "db-1", "db-2"} <= set(hosts["machine"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [block["arm"] for block in manifest["host"]["blocks"]] == ["baseline", "replicated"]
    for host_block in manifest["host"]["blocks"]:  # all of a busy host's cores may be in use
        assert 0 <= host_block["others_share"] < host_block["busy_share"] <= 1, host_block
    arbiters = pl.read_parquet(folder / "arbiters.parquet")
    requests_sent = arbiters.filter(pl.col("tier") == "web").group_by("replicas").len()
    assert set(requests_sent["replicas"]) >= {1, 2}, "the arms really had other replication factors"
    assert str(folder.resolve() / "report.html") in output.replace("\n", "")
    assert docker.find(EXPERIMENT) == []


@pytest.mark.long
def test_a_share_of_the_fleets_cpu_becomes_a_rate_and_is_what_the_run_uses(tmp_path: Path) -> None:
    design = tmp_path / "design"
    shutil.copytree(DESIGN, design)
    toml = design / "experiment.toml"
    toml.write_text(toml.read_text().replace("rate_per_s = 4.0", "utilisation = 0.15"))
    _start(tmp_path, design=design).ended(0, 1)
    folder = tmp_path / EXPERIMENT / "latest"
    manifest = json.loads((folder / "manifest.json").read_text())
    calibration = manifest["calibration"]
    assert calibration["ci_low"] < calibration["rate_per_s"] < calibration["ci_high"]
    assert calibration["arms"]["baseline"][calibration["tier"]] == pytest.approx(0.15, rel=0.01)
    assert manifest["spec"]["load"]["utilisation"] == 0.15
    requests = pl.read_parquet(folder / "requests.parquet")
    assert set(requests["repeat"]) == {0, 1}, "nothing of the calibration is kept"
    summary = _summary(tmp_path)
    for arm in ("baseline", "replicated"):
        offered_per_s = summary["arms"][arm]["offered_per_s"]
        assert 0.4 < offered_per_s / calibration["rate_per_s"] < 2.5  # a Poisson count of 15 s
        assert summary["utilisation"][arm]["web"]["measured"] > 0
    utilisation = json.loads(sparecraft("check", str(design), "--json").stdout)["utilisation"]
    assert utilisation["asked"] == 0.15


# Panels that show data where the design has an SLO and the fleet a price.
TOLD = ("Burn rate of the p95", "Burn rate of the errors", "USD per hour",
        "USD per million good requests", "annotation: Verdicts")  # fmt: skip


@pytest.mark.long
def test_a_plans_fleet_is_made_as_described_shown_and_held_to_its_prediction(
    tmp_path: Path,
) -> None:
    from grafana.verify import empty_panels, verify

    run = tmp_path / "source"
    run.mkdir()
    spec = spec_json(load_design(DESIGN))
    (run / "manifest.json").write_text(json.dumps({"run": "20261119T090000Z", "spec": spec}))
    (run / "plan.json").write_text(json.dumps(small_prediction()))
    planned_design = adopt(run)
    assert planned_design.fleet.experiment == PLANNED
    output = _start(tmp_path, "--keep", design=planned_design.directory).ended(0, 1)
    platform = LocalPlatform(PLANNED)
    assert platform.stack.changes() == []
    folder = (tmp_path / PLANNED / "latest").resolve()
    _check_prediction(flat(read_result(folder))["predicted"])
    assert "cost a month" in output
    url = platform.identity().influxdb(platform.inventory())
    rows = verify(url, "sparecraft", PLANNED, folder.name)
    assert empty_panels(rows) == []
    assert [name for name in TOLD if not dict(rows)[name]] == []
    docker.run("kill", platform.container("web-2"))
    assert any("web-2" in address for address in platform.stack.changes()), "drift is seen"


def _check_prediction(predicted: dict[str, Any]) -> None:
    assert predicted["cost_usd_per_month"]["errors"] == []
    assert predicted["cost_usd_per_month"]["measured"] == 30.0
    assert predicted["blocks"] == 2
    assert predicted["latency"]["p95_ms"]["measured"] > 1
    assert predicted["latency"]["p99_ms"]["insufficient"] is True
    assert predicted["arrival_rate_per_s"]["measured"] > 1
    for tier in ("web", "db"):
        assert 0 < predicted["utilisation"][tier]["measured"] < 1.2
    assert predicted["availability"]["all_nodes_up_share"] == 1.0


@pytest.mark.long
def test_a_block_that_the_host_spoils_is_set_aside_and_measured_again(tmp_path: Path) -> None:
    session = _start(tmp_path, "--quiet-wait", "3")
    session.until_event(kind="measure", action="start")
    generator = _generator_of(session.process.pid)
    os.kill(generator, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(generator, signal.SIGCONT)
    output = session.ended(0, 1)
    folder = tmp_path / EXPERIMENT / "latest"
    manifest = json.loads((folder / "manifest.json").read_text())
    blocks = {block["repeat"]: block for block in manifest["host"]["blocks"]}
    assert "late" in blocks[0]["spoiled"]
    assert "measured again" in output
    requests, discarded = (
        pl.read_parquet(folder / f"{table}.parquet") for table in ("requests", "discarded")
    )
    assert 0 in set(discarded["repeat"])
    assert set(requests["repeat"]) == {
        repeat for repeat, block in blocks.items() if not block["spoiled"]
    }
    counts = {arm: frame.height for (arm,), frame in requests.group_by("arm")}
    assert counts["baseline"] == counts["replicated"], "each arm counts once, arrivals are the same"
    summary = _summary(tmp_path)
    assert summary["arms"]["baseline"]["lag_ms_p99"] < 1000
    assert summary["verdicts"]["revert"]["ok"], summary["verdicts"]
    assert "set aside" in (folder / "report.html").read_text()


def _generator_of(pid: int) -> int:
    """The load generator among the children of a run."""
    generators = list[int]()
    for child in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended
            if b"loadworker" in Path(f"/proc/{child}/cmdline").read_bytes():
                generators.append(child)
    [generator] = generators
    return generator


def test_ctrl_c_reverts_keeps_what_was_measured_and_leaves_nothing(tmp_path: Path) -> None:
    session = _start(tmp_path)
    session.until_event(action="inject")
    session.process.send_signal(signal.SIGINT)
    session.ended(130)
    summary = _summary(tmp_path)
    assert summary["valid"] is False
    assert any("interrupted" in reason for reason in summary["verdicts"]["measurement"]["reasons"])
    assert summary["faults"]["reverted"] == summary["faults"]["injected"] > 0
    requests = pl.read_parquet(tmp_path / EXPERIMENT / "latest" / "requests.parquet")
    assert len(requests) > 0
    assert docker.find(EXPERIMENT) == []


@pytest.mark.long
def test_a_guard_undoes_all_faults_keeps_what_was_measured_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    design = tmp_path / "guarded"
    shutil.copytree(DESIGN, design)
    with (design / "experiment.toml").open("a") as toml:
        toml.write("\n[guard]\np99_ms_max = 1.0\nwindow_s = 10.0\nrequests_min = 20\n")
    results = tmp_path / "results"
    session = _start(results, design=design)
    assert "stopped by guard" in session.ended(1)
    summary = _summary(results)
    assert summary["valid"] is False
    stop = summary["stopped"]
    assert (stop["by"], stop["condition"]) == ("guard", "p99_ms_max")
    assert [event["text"] for event in session.events() if event["what"] == "guard"] == [
        stop["reason"]
    ]
    assert summary["faults"]["reverted"] == summary["faults"]["injected"]
    assert summary["undone"]["unconfirmed"] == 0
    assert summary["verdicts"]["revert"]["ok"], summary["verdicts"]
    assert len(pl.read_parquet(results / EXPERIMENT / "latest" / "requests.parquet")) > 0
    assert docker.find(EXPERIMENT) == []


@pytest.mark.long
def test_a_second_run_is_refused_while_one_is_active(tmp_path: Path) -> None:
    session = _start(tmp_path)
    session.until("the run", lambda: any(run.pid == session.process.pid for run in active()))
    process = sparecraft("run", str(DESIGN), "--results", str(tmp_path / "others"))
    assert process.returncode == 3
    assert f"process {session.process.pid}" in process.stderr
    session.process.send_signal(signal.SIGTERM)
    session.ended(130)
