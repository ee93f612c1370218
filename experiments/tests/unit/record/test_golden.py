"""Report and planner read one kept run: the same requests, percentiles, windows and time-out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.events import of_kind
from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import counted, time_out_of
from experiments.kinds.compare.folder import read_folder
from experiments.record.metrics.summary import summarize_run
from experiments.tests.golden import FOLDER
from optimizer.fit import fit, read_results

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
