"""The whole loop on real machines, as a user calls it, in calm and in trouble.

Each test runs `sparecraft` as a process on a fleet of two web and two database machines.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.design import load_design
from experiments.kinds.compare.adopt import adopt
from experiments.record.manifest import spec_json
from experiments.record.result import flat, read_result
from experiments.stage.agents import connect_agent, tls_context
from experiments.stage.platforms.local import docker
from experiments.stage.platforms.local.platform import LocalPlatform
from experiments.tests.planned_fixture import small_prediction

pytestmark = [pytest.mark.real, pytest.mark.fleet, pytest.mark.timeout(600)]

DESIGN = Path(__file__).parent / "designs" / "small"
EXPERIMENT = "tst-small"
PLANNED = "tst-small-planned"
_WAIT_S = 180.0


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    _remove()
    yield
    _remove()
    assert docker.find(EXPERIMENT) + docker.find(PLANNED) == []


def _remove() -> None:
    for name in (EXPERIMENT, PLANNED):
        LocalPlatform(name).down(lambda line: print(line))


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "experiments.cli", *arguments]


def _start(results: Path, *arguments: str, design: Path = DESIGN) -> subprocess.Popen[str]:
    results.mkdir(parents=True, exist_ok=True)
    log = (results / "output.txt").open("w")
    with log:
        return subprocess.Popen(
            _command("run", str(design), "--results", str(results), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _finish(process: subprocess.Popen[str], results: Path) -> tuple[int, str]:
    code = process.wait(timeout=_WAIT_S)
    output = (results / "output.txt").read_text()
    assert "Traceback" not in output, output
    return code, output


def _until(what: str, condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert process.poll() is None, f"the run ended while waiting for {what}"
        assert time.monotonic() < deadline, f"no {what} within {_WAIT_S} s"
        time.sleep(0.2)


def _events(results: Path) -> list[dict[str, Any]]:
    files = list(results.glob(f"{EXPERIMENT}/2*/events.jsonl"))
    if not files:
        return []
    lines = files[0].read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def _injected(results: Path) -> Callable[[], bool]:
    return lambda: any(event["action"] == "inject" for event in _events(results))


def _summary(results: Path) -> dict[str, Any]:
    return flat(read_result(results / EXPERIMENT / "latest"))


def test_a_run_measures_both_arms_reverts_plans_and_leaves_nothing(tmp_path: Path) -> None:
    code, output = _finish(_start(tmp_path), tmp_path)
    summary = _summary(tmp_path)
    assert code in (0, 1), output
    for arm in ("baseline", "replicated"):
        assert summary["arms"][arm]["requests"] > 30
        assert summary["arms"][arm]["p50_ms"] > 1
    baseline, replicated = (summary["arms"][arm]["requests"] for arm in ("baseline", "replicated"))
    assert baseline == replicated, "both arms meet the same arrivals"
    assert summary["faults"]["injected"] >= 2
    assert summary["faults"]["reverted"] == summary["faults"]["injected"]
    assert summary["faults"]["fingerprint_clean"] is True
    assert summary["verdicts"]["revert"]["ok"], summary["verdicts"]
    assert summary["verdicts"]["cleanup"]["ok"], summary["verdicts"]
    assert summary["influx_points"] > baseline + replicated
    assert "feasible" in summary["plan"]
    folder = tmp_path / EXPERIMENT / "latest"
    hosts = pl.read_parquet(folder / "hosts.parquet")
    assert {"web-1", "web-2", "db-1", "db-2"} <= set(hosts["machine"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [block["arm"] for block in manifest["host"]["blocks"]] == ["baseline", "replicated"]
    assert all(0 < block["busy_share"] < 1 for block in manifest["host"]["blocks"])
    arbiters = pl.read_parquet(folder / "arbiters.parquet")
    sent = arbiters.filter(pl.col("tier") == "web").group_by("replicas").len()
    assert set(sent["replicas"]) >= {1, 2}, "the arms really had other replication factors"
    assert str(folder.resolve() / "report.html") in output.replace("\n", "")
    assert docker.find(EXPERIMENT) == []


def test_a_plans_fleet_is_made_as_described_shown_and_held_to_its_prediction(
    tmp_path: Path,
) -> None:
    from grafana.verify import empty_panels, verify

    run = tmp_path / "source"
    run.mkdir()
    spec = spec_json(load_design(DESIGN))
    (run / "manifest.json").write_text(json.dumps({"run": "20261119T090000Z", "spec": spec}))
    (run / "plan.json").write_text(json.dumps(small_prediction()))
    planned = adopt(run)
    assert planned.fleet.experiment == PLANNED
    code, output = _finish(_start(tmp_path, "--keep", design=planned.directory), tmp_path)
    assert code in (0, 1), output
    platform = LocalPlatform(PLANNED)
    assert platform.changes() == []
    folder = (tmp_path / PLANNED / "latest").resolve()
    _check_prediction(flat(read_result(folder))["predicted"])
    assert "cost a month" in output
    url = platform.inventory().endpoints.influxdb
    assert empty_panels(verify(url, "sparecraft", PLANNED, folder.name)) == []
    docker.kill(platform.container("web-2"))
    assert any("web-2" in address for address in platform.changes()), "drift is seen"


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


def test_a_block_that_the_host_spoils_is_set_aside_and_measured_again(tmp_path: Path) -> None:
    process = _start(tmp_path, "--quiet-wait", "3")
    _until("the measurement", _measuring(tmp_path), process)
    generator = _generator_of(process.pid)
    os.kill(generator, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(generator, signal.SIGCONT)
    code, output = _finish(process, tmp_path)
    assert code in (0, 1), output
    folder = tmp_path / EXPERIMENT / "latest"
    manifest = json.loads((folder / "manifest.json").read_text())
    blocks = {block["repeat"]: block for block in manifest["host"]["blocks"]}
    assert "late" in blocks[0]["spoiled"]
    assert "measured again" in output
    kept, aside = (pl.read_parquet(folder / f"{n}.parquet") for n in ("requests", "spoiled"))
    assert 0 in set(aside["repeat"])
    assert set(kept["repeat"]) == {n for n, block in blocks.items() if not block["spoiled"]}
    counts = {arm: frame.height for (arm,), frame in kept.group_by("arm")}
    assert counts["baseline"] == counts["replicated"], "each arm counts once, arrivals are the same"
    summary = _summary(tmp_path)
    assert summary["arms"]["baseline"]["lag_ms_p99"] < 1000
    assert summary["verdicts"]["revert"]["ok"], summary["verdicts"]
    assert "set aside" in (folder / "report.html").read_text()


def _measuring(results: Path) -> Callable[[], bool]:
    return lambda: any(
        (event["kind"], event["action"]) == ("measure", "start") for event in _events(results)
    )


def _generator_of(pid: int) -> int:
    """The load generator among the children of a run."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = [
        int(child)
        for of_thread in children
        for child in of_thread.read_text().split()
        if b"locust" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert len(found) == 1, found
    return found[0]


def test_ctrl_c_reverts_keeps_what_was_measured_and_leaves_nothing(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _until("an injection", _injected(tmp_path), process)
    process.send_signal(signal.SIGINT)
    code, output = _finish(process, tmp_path)
    assert code == 130, output
    summary = _summary(tmp_path)
    assert summary["valid"] is False
    assert any("interrupted" in reason for reason in summary["verdicts"]["measurement"]["reasons"])
    assert summary["faults"]["reverted"] == summary["faults"]["injected"] > 0
    requests = pl.read_parquet(tmp_path / EXPERIMENT / "latest" / "requests.parquet")
    assert len(requests) > 0
    assert docker.find(EXPERIMENT) == []


def test_agents_undo_within_their_lease_when_the_runner_is_killed(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _until("an injection", _injected(tmp_path), process)
    active = _events(tmp_path)[-1]["machine"] or "web-1"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    platform = LocalPlatform(EXPERIMENT)
    context = tls_context(platform.identity())
    with connect_agent(platform.inventory().machine(active), context) as agent:
        deadline = time.monotonic() + 60
        while any(fault["state"] == "active" for fault in agent.faults()):
            assert time.monotonic() < deadline, agent.faults()
            time.sleep(0.5)
        assert agent.fingerprint()["clean"], agent.fingerprint()
    done = subprocess.run(
        _command("down", EXPERIMENT), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert docker.find(EXPERIMENT) == []


def test_a_killed_influxdb_loses_no_point_and_not_the_run(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _until("an injection", _injected(tmp_path), process)
    container = LocalPlatform(EXPERIMENT).container("influxdb-1")
    docker.kill(container)
    code, output = _finish(process, tmp_path)
    assert code == 1, output
    folder = tmp_path / EXPERIMENT / "latest"
    telemetry = json.loads((folder / "manifest.json").read_text())["telemetry"]
    spooled = (folder / "telemetry.lp").read_text().count("\n")
    assert telemetry["lost"] == 0
    assert spooled == telemetry["spooled"] > 0
    assert telemetry["written"] + spooled == telemetry["accepted"]
    reasons = _summary(tmp_path)["verdicts"]["measurement"]["reasons"]
    assert any("influxdb-1 was lost" in reason for reason in reasons)
    assert docker.find(EXPERIMENT) == []


def test_a_machine_killed_from_outside_is_noticed_and_the_run_is_not_valid(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _until("an injection", _injected(tmp_path), process)
    docker.kill(LocalPlatform(EXPERIMENT).container("web-2"))
    code, output = _finish(process, tmp_path)
    assert code == 1, output
    summary = _summary(tmp_path)
    assert summary["valid"] is False
    reasons = summary["verdicts"]["measurement"]["reasons"]
    assert any("web-2 was lost" in reason for reason in reasons), reasons
    assert docker.find(EXPERIMENT) == []


def test_a_second_run_is_refused_while_one_is_active(tmp_path: Path) -> None:
    process = _start(tmp_path)
    _until("the lock", (tmp_path / ".lock").exists, process)
    second = subprocess.run(
        _command("run", str(DESIGN), "--results", str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 3
    assert f"process {process.pid}" in second.stderr
    process.send_signal(signal.SIGTERM)
    code, output = _finish(process, tmp_path)
    assert code == 130, output
