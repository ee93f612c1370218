"""One run through report and planner: the same numbers, also of what failed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from core.runfiles.events import of_kind
from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import counted, time_out_of
from experiments.kinds.compare.folder import read_folder
from experiments.record.metrics.summary import summarize, summarize_run
from experiments.record.result import Findings
from experiments.tests.frames import requests
from experiments.tests.golden import make
from optimizer.fit import fit, read_results
from optimizer.simulation.arm import Arm
from optimizer.simulation.law import lower_decile_distance
from optimizer.tests.synthetic import Truth, write_run

ARMS = ("baseline", "replicated")


@pytest.fixture(name="golden", scope="module")
def _golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    make(folder)
    return folder


@pytest.fixture(scope="module")
def report(golden: Path) -> dict[str, Any]:
    return dict(summarize_run(golden).body)


@pytest.mark.parametrize("arm", ARMS)
def test_planner_and_report_have_the_same_figures_of_the_time_without_faults(
    golden: Path, report: dict[str, Any], arm: str
) -> None:
    (fitted,) = (entry for entry in fit(read_results(golden)).arms if entry.name == arm)
    arm_report = report["phases"]["measure"][arm]
    assert (fitted.requests, fitted.failed) == (arm_report["requests"], arm_report["errors"])
    assert fitted.mean_ms == pytest.approx(arm_report["mean_ms"])
    assert fitted.p95_ms.value == arm_report["p95_ms"]
    assert fitted.p99_ms.value == arm_report["p99_ms"]


@pytest.mark.parametrize("arm", ARMS)
def test_the_report_s_own_figures_are_with_the_faults(report: dict[str, Any], arm: str) -> None:
    phases = {phase: arms[arm] for phase, arms in report["phases"].items() if arm in arms}
    counts = {phase: figures["requests"] for phase, figures in phases.items()}
    assert report["arms"][arm]["requests"] == sum(counts.values()) - counts["warm-up"]
    assert counts["fault"] > 0


def test_percentiles_are_order_statistics_of_what_requests_count_with(
    golden: Path, report: dict[str, Any]
) -> None:
    limit_ms = time_out_of(manifest_if_any(golden))
    assert limit_ms == 6000.0
    rows = pl.read_parquet(golden / "requests.parquet").filter(pl.col("phase") != "warm-up")
    for arm in ARMS:
        series = rows.filter(pl.col("arm") == arm).select(counted(limit_ms)).to_series().sort()
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            latencies = series.to_list()
            assert (
                report["arms"][arm][f"{name}_ms"] == latencies[math.ceil(share * len(series)) - 1]
            )


def test_what_was_dropped_lost_or_refused_enters_at_the_time_out_in_both(golden: Path) -> None:
    failed = pl.col("outcome").is_in(["dropped", "lost", "connection_error"])
    counted_ms = read_folder(golden).requests.filter(failed)["latency_ms"]
    results = read_results(golden)
    fitted = results.requests.filter(failed).select(counted(time_out_of(results.manifest)))
    assert counted_ms.to_list() == fitted.to_series().to_list() == [6000.0] * len(counted_ms)
    assert len(counted_ms) >= 3


def test_windows_are_the_same_and_an_open_fault_ends_with_the_run(golden: Path) -> None:
    window_list, results = read_folder(golden).windows, read_results(golden)
    assert list(results.faults) == of_kind(window_list, "fault")
    assert list(results.interference) == of_kind(window_list, "interference")
    assert "web-1" in {window.machine for window in results.interference}
    assert 7 not in {window.repeat for window in results.interference}
    closed_fault, open_fault = results.faults
    assert (closed_fault.start_s, closed_fault.end_s, closed_fault.closed) == (30.0, 38.0, True)
    assert (open_fault.start_s, open_fault.end_s, open_fault.closed) == (79.0, 103.0, False)


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
    body = compared(refused=True).body
    baseline, refusing = (body["arms"][arm] for arm in ("baseline", "other"))
    assert refusing["error_share"] == pytest.approx(0.2)
    for name in FIGURES:
        assert refusing[name] > baseline[name], name
    assert refusing["p95_ms"] == refusing["p99_ms"] == 6000.0
    assert refusing["punctuality"] < baseline["punctuality"]
    assert refusing["demerits"] > baseline["demerits"]
    for name in ("mean", "p50", "p95", "p99"):
        assert body["improvement"][name]["factor"] < 1.0, name


def test_arms_that_answer_alike_are_alike() -> None:
    body = compared(refused=False).body
    for name in FIGURES:
        assert body["arms"]["other"][name] == body["arms"]["baseline"][name], name


@pytest.fixture(scope="module")
def run_with_failures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which requests fail in every way, quickly, slowly and without a latency."""
    folder = write_run(tmp_path_factory.mktemp("run") / "failing", Truth(block_s=60.0))
    file = folder / "requests.parquet"
    at = pl.int_range(pl.len())
    failures: dict[int, tuple[str, float | None]] = {
        0: ("connection_error", 0.03), 1: ("bad_status", 3.0), 2: ("aborted_connection", 2000.0),
        3: ("time_out", 7900.0), 4: ("dropped", None),
    }  # fmt: skip
    rows = pl.read_parquet(file)
    for index, (outcome, latency_ms) in failures.items():
        hit = at % 25 == 5 * index
        rows = rows.with_columns(
            pl.when(hit).then(pl.lit(outcome)).otherwise("outcome").alias("outcome"),
            pl.when(hit).then(pl.lit(latency_ms)).otherwise("latency_ms").alias("latency_ms"),
        )
    rows.write_parquet(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["spec"]["load"] = TIME_OUTS
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_the_simulator_s_work_is_drawn_from_good_answers_only(run_with_failures: Path) -> None:
    results = read_results(run_with_failures)
    arm = Arm(results, fit(results), "baseline")
    good = results.requests.filter(
        (pl.col("arm") == "baseline") & (pl.col("phase") == "measure") & (pl.col("outcome") == "ok")
    )["latency_ms"].to_numpy()
    # without one block's warm-up
    assert arm.lower_s == pytest.approx(lower_decile_distance(good), rel=0.1)
    assert max(s for _, s in arm.near_median) <= good.max() / 1000.0
    assert arm.percentiles_s[95.0] == 6.0
