"""An arm that refuses is no fast one, in the report and the plan, which have the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.record.metrics.summary import summarize
from experiments.record.result import Findings
from experiments.tests.frames import requests
from optimizer.fit import fit, read_results
from optimizer.simulation.arm import Arm
from optimizer.simulation.law import lower
from optimizer.tests.synthetic import Truth, write_run

TIME_OUTS = {"connect_timeout_s": 2.0, "response_timeout_s": 6.0}
FIGURES = ("mean_ms", "p50_ms", "p95_ms", "p99_ms")
REFUSED = {"outcome": "connection_error", "latency_ms": 0.03}


def compared(refused: bool) -> Findings:
    """Two arms of the same 1,000 latencies; the second refuses every fifth request, or does not."""
    rng = np.random.default_rng(5)
    latencies_ms = 20.0 * rng.lognormal(0.0, 0.7, 1000)
    rows: list[dict[str, Any]] = []
    for arm, repeat in (("baseline", 0), ("other", 1)):
        for index, latency_ms in enumerate(latencies_ms):
            row = {"arm": arm, "repeat": repeat, "index": index, "latency_ms": latency_ms}
            rows.append({**row, **(REFUSED if refused and repeat and index % 5 == 0 else {})})
    arms: dict[str, Any] = {"baseline": {}, "other": {}}
    return summarize(requests(rows), [], {"spec": {"load": TIME_OUTS, "arms": arms}, "seed": 1})


def test_an_arm_that_refuses_a_fifth_of_its_requests_at_once_improves_nothing() -> None:
    found = compared(refused=True).body
    baseline, other = (found["arms"][arm] for arm in ("baseline", "other"))
    assert other["error_share"] == pytest.approx(0.2)
    for name in FIGURES:
        assert other[name] > baseline[name], name
    assert other["p95_ms"] == other["p99_ms"] == 6000.0
    assert other["punctuality"] < baseline["punctuality"]
    assert other["demerits"] > baseline["demerits"]
    for name in ("mean", "p50", "p95", "p99"):
        assert found["improvement"][name]["factor"] < 1.0, name


def test_arms_that_answer_alike_are_alike() -> None:
    found = compared(refused=False).body
    for name in FIGURES:
        assert found["arms"]["other"][name] == found["arms"]["baseline"][name], name


@pytest.fixture(scope="module")
def run_with_failures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which requests fail in every way, quickly, slowly and without a latency."""
    folder = write_run(tmp_path_factory.mktemp("run") / "failing", Truth(block_s=60.0))
    file = folder / "requests.parquet"
    at = pl.int_range(pl.len())
    failures: dict[int, tuple[str, float | None]] = {
        0: ("connection_error", 0.03),
        1: ("bad_status", 3.0),
        2: ("aborted_connection", 2000.0),
        3: ("time_out", 7900.0),
        4: ("dropped", None),
    }
    rows = pl.read_parquet(file)
    for place, (outcome, latency_ms) in failures.items():
        hit = at % 25 == 5 * place
        rows = rows.with_columns(
            pl.when(hit).then(pl.lit(outcome)).otherwise("outcome").alias("outcome"),
            pl.when(hit).then(pl.lit(latency_ms)).otherwise("latency_ms").alias("latency_ms"),
        )
    rows.write_parquet(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["spec"]["load"] = TIME_OUTS
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_report_and_planner_have_the_same_figures_of_one_run(run_with_failures: Path) -> None:
    manifest = json.loads((run_with_failures / "manifest.json").read_text())
    rows = pl.read_parquet(run_with_failures / "requests.parquet")
    report = summarize(rows, [], manifest).body["arms"]
    planner = {arm.name: arm for arm in fit(read_results(run_with_failures)).arms}
    assert planner.keys() == report.keys() == {"baseline", "replicated"}
    for name, arm in planner.items():
        told = report[name]
        assert (arm.requests, arm.failed) == (told["requests"], told["errors"])
        assert arm.mean_ms == pytest.approx(told["mean_ms"])
        assert (arm.p95_ms.value, arm.p99_ms.value) == (told["p95_ms"], told["p99_ms"])
        assert told["p95_ms"] == 6000.0
        assert told["p99_ms"] == 7900.0


def test_the_simulator_s_work_is_drawn_from_good_answers_only(run_with_failures: Path) -> None:
    results = read_results(run_with_failures)
    arm = Arm(results, fit(results), "baseline")
    good = results.requests.filter(
        (pl.col("arm") == "baseline") & (pl.col("phase") == "measure") & (pl.col("outcome") == "ok")
    )["latency_ms"].to_numpy()
    assert arm.lower_s == pytest.approx(lower(good), rel=0.1)  # without one block's warm-up
    assert max(s for _, s in arm.near_median) <= good.max() / 1000.0
    assert arm.percentiles_s[95.0] == 6.0
