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
from experiments.tests.golden import FOLDER
from optimizer.fit import fit, read_results
from optimizer.simulation.arm import Arm
from optimizer.simulation.law import lower
from optimizer.tests.synthetic import Truth, write_run

ARMS = ("baseline", "replicated")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return dict(summarize_run(FOLDER).body)


@pytest.mark.parametrize("arm", ARMS)
def test_planner_and_report_have_the_same_figures_of_the_time_without_faults(
    report: dict[str, Any], arm: str
) -> None:
    (planned,) = (one for one in fit(read_results(FOLDER)).arms if one.name == arm)
    shown = report["phases"]["measure"][arm]
    assert (planned.requests, planned.failed) == (shown["requests"], shown["errors"])
    assert planned.mean_ms == pytest.approx(shown["mean_ms"])
    assert planned.p95_ms.value == shown["p95_ms"]
    assert planned.p99_ms.value == shown["p99_ms"]


@pytest.mark.parametrize("arm", ARMS)
def test_the_report_s_own_figures_are_with_the_faults(report: dict[str, Any], arm: str) -> None:
    phases = {phase: arms[arm] for phase, arms in report["phases"].items() if arm in arms}
    counts = {phase: figures["requests"] for phase, figures in phases.items()}
    assert report["arms"][arm]["requests"] == sum(counts.values()) - counts["warm-up"]
    assert counts["fault"] > 0


def test_percentiles_are_order_statistics_of_what_requests_count_with(
    report: dict[str, Any],
) -> None:
    limit_ms = time_out_of(manifest_if_any(FOLDER))
    assert limit_ms == 6000.0
    rows = pl.read_parquet(FOLDER / "requests.parquet").filter(pl.col("phase") != "warm-up")
    for arm in ARMS:
        own = rows.filter(pl.col("arm") == arm).select(counted(limit_ms)).to_series().sort()
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            ordered = own.to_list()
            assert report["arms"][arm][f"{name}_ms"] == ordered[math.ceil(share * len(own)) - 1]


def test_what_was_dropped_lost_or_refused_enters_at_the_time_out_in_both() -> None:
    failed = pl.col("outcome").is_in(["dropped", "lost", "connection_error"])
    shown = read_folder(FOLDER).requests.filter(failed)["latency_ms"]
    results = read_results(FOLDER)
    fitted = results.requests.filter(failed).select(counted(time_out_of(results.manifest)))
    assert shown.to_list() == fitted.to_series().to_list() == [6000.0] * len(shown)
    assert len(shown) >= 3


def test_windows_are_the_same_and_an_open_fault_ends_with_the_run() -> None:
    shown, results = read_folder(FOLDER).windows, read_results(FOLDER)
    assert list(results.faults) == of_kind(shown, "fault")
    assert list(results.interference) == of_kind(shown, "interference")
    assert "web-1" in {one.machine for one in results.interference}
    assert 7 not in {one.repeat for one in results.interference}
    ended, left = results.faults
    assert (ended.start_s, ended.end_s, ended.closed) == (30.0, 38.0, True)
    assert (left.start_s, left.end_s, left.closed) == (79.0, 103.0, False)


def test_the_kept_run_is_small() -> None:
    assert sum(file.stat().st_size for file in Path(FOLDER).iterdir()) < 200_000


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
        0: ("connection_error", 0.03), 1: ("bad_status", 3.0), 2: ("aborted_connection", 2000.0),
        3: ("time_out", 7900.0), 4: ("dropped", None),
    }  # fmt: skip
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
