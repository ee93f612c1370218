"""The figures of a whole run: its keys, its verdicts, and trouble of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.runfiles.result import read_result
from experiments.record.metrics.arbiters import replication_load
from experiments.record.records import REQUESTS
from experiments.record.result import flat
from experiments.tests.report_fixture import FakeRun, fake_run


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return fake_run(seed=4, rate_per_s=12.0, measure_s=40.0)


@pytest.fixture(scope="module")
def summary(run: FakeRun) -> dict[str, Any]:
    return run.summary()


def test_a_whole_run_has_figures_that_agree_with_each_other(
    run: FakeRun, summary: dict[str, Any]
) -> None:
    assert summary["valid"], summary["verdicts"]
    assert summary["faults"]["injected"] == summary["faults"]["reverted"] > 0
    assert (summary["influx_points"], summary["plan"]["feasible"]) == (48210, True)
    assert set(summary["phases"]) == {"warm-up", "measure"}
    arms = summary["arms"]
    for name in ("mean", "p95", "p99"):
        entry = summary["improvement"][name]
        assert entry["ci_low"] <= entry["factor"] <= entry["ci_high"]
        ratio = arms["baseline"][f"{name}_ms"] / arms["replicated"][f"{name}_ms"]
        assert entry["factor"] == pytest.approx(ratio)
    measured = run.requests.filter((pl.col("phase") == "measure") & (pl.col("arm") == "replicated"))
    assert arms["replicated"]["requests"] == measured.height, "without the warm-up"
    assert arms["replicated"]["duration_s"] == pytest.approx(80.0)
    assert summary["phases"]["warm-up"]["replicated"]["requests"] > 0
    json.dumps(summary, allow_nan=False)


def test_shuffled_rows_and_events_give_the_same_summary(
    run: FakeRun, summary: dict[str, Any]
) -> None:
    shuffled = run.requests.sample(fraction=1.0, shuffle=True, seed=1)
    ordered_summary, again = summary, run.summary(requests=shuffled)
    for part in ("arms", "phases", "slo", "faults", "improvement"):
        assert again[part].keys() == ordered_summary[part].keys()
    assert again["arms"]["replicated"]["p99_ms"] == ordered_summary["arms"]["replicated"]["p99_ms"]
    assert again["improvement"]["p95"]["ci_low"] == ordered_summary["improvement"]["p95"]["ci_low"]


def without(run: FakeRun, **of: str) -> dict[str, Any]:
    """Return the run's events without those that have these values."""
    return {"events": [line for line in run.events if not of.items() <= line.items()]}


@pytest.mark.parametrize(
    ("spoilt", "verdict", "said"),
    [
        (lambda run: {"requests": run.requests.with_columns(lag_ms=pl.lit(40.0))},
         "measurement", "lag p99 40.00 ms"),
        (lambda run: without(run, kind="net.limp", action="revert"), "revert", "web-2"),
        (lambda run: without(run, what="fault"), "injection", ""),
        (lambda run: {"manifest": {**run.manifest, "fingerprint_clean": False}},
         "revert", "fingerprint"),
        (lambda run: {"manifest": {**run.manifest, "fingerprint_clean": None}},
         "revert", "fingerprint"),
    ],
    ids=["late", "not reverted", "never injected", "not clean", "not known to be clean"],
)  # fmt: skip
def test_what_makes_a_run_invalid_is_named(
    run: FakeRun, spoilt: Callable[[FakeRun], dict[str, Any]], verdict: str, said: str
) -> None:
    summary = run.summary(**spoilt(run))
    assert not summary["valid"]
    assert not summary["verdicts"][verdict]["ok"]
    assert said in " ".join(summary["verdicts"][verdict]["reasons"])


def test_more_errors_than_the_design_allows_make_the_run_invalid(run: FakeRun) -> None:
    strict = deepcopy(run.manifest)
    strict["spec"]["slo"]["max_error_share"] = 0.0
    failing = run.requests.with_columns(
        outcome=pl.when(pl.col("index") % 50 == 49).then(pl.lit("bad_content")).otherwise("outcome")
    )
    summary = run.summary(requests=failing, manifest=strict)
    assert not summary["verdicts"]["measurement"]["ok"]
    assert summary["slo"]["met"] is False


def test_a_failed_clean_up_does_not_void_the_data(run: FakeRun) -> None:
    manifest = deepcopy(run.manifest)
    manifest["verdicts"]["cleanup"] = {"ok": False, "reasons": ["a network is left"]}
    summary = run.summary(manifest=manifest)
    assert summary["valid"]
    assert summary["verdicts"]["cleanup"]["ok"] is False
    del manifest["verdicts"]
    assert not run.summary(manifest=manifest)["valid"], "nobody said that it is"


@pytest.mark.parametrize(
    ("latency_ms", "slow", "met"),
    [(100.0, 0, True), (100.0, 400, False), (100.0, 9, None), (100.0, 60, False)],
)
def test_an_slo_counts_slow_and_failed_requests(
    run: FakeRun, latency_ms: float, slow: int, met: bool | None
) -> None:
    requests = run.requests.filter(pl.col("phase") == "measure").with_columns(
        outcome=pl.lit("ok"), latency_ms=pl.lit(latency_ms)
    )
    replicated = requests.filter(pl.col("arm") == "replicated").with_row_index("row")
    replicated = replicated.with_columns(
        latency_ms=pl.when(pl.col("row") * slow % pl.len() < slow)
        .then(5000.0)
        .otherwise("latency_ms")
    ).drop("row")
    both_arms = pl.concat([requests.filter(pl.col("arm") == "baseline"), replicated])
    slo = run.summary(requests=both_arms)["slo"]
    assert slo["met"] is met, slo
    assert slo["arms"]["baseline"]["met"] is True


def test_an_slo_that_few_samples_cannot_decide_stays_open(run: FakeRun) -> None:
    few = run.requests.filter((pl.col("phase") == "measure") & (pl.col("index") % 10 == 0))
    few = few.with_columns(outcome=pl.lit("ok"), latency_ms=pl.lit(100.0))
    slo = run.summary(requests=few)["slo"]
    assert slo["met"] is None
    assert slo["arms"]["replicated"]["limits"]["p99_ms"] is None


def test_an_arm_without_one_good_request_is_reported_and_invalid(run: FakeRun) -> None:
    dead = run.requests.with_columns(
        outcome=pl.when(pl.col("arm") == "replicated").then(pl.lit("dropped")).otherwise("outcome"),
        latency_ms=pl.when(pl.col("arm") == "replicated").then(None).otherwise("latency_ms"),
    )
    summary = run.summary(requests=dead)
    assert summary["arms"]["replicated"]["mean_ms"] == 6000.0
    assert summary["arms"]["replicated"]["goodput"] == 0.0
    assert not summary["valid"]
    assert summary["improvement"]["mean"]["factor"] < 1.0


def test_an_empty_run_still_has_a_summary_that_says_so(run: FakeRun) -> None:
    summary = run.summary(
        requests=pl.DataFrame(schema=REQUESTS), events=[], plan=None, arbiters=None
    )
    assert not summary["valid"]
    assert summary["arms"]["baseline"]["requests"] == 0
    assert summary["improvement"]["p99"]["factor"] is None
    assert summary["plan"]["feasible"] is None


def test_replication_is_counted_between_the_ends_of_each_block(summary: dict[str, Any]) -> None:
    replication = summary["replication"]
    assert replication["baseline"]["web"]["replicas_per_request"] == pytest.approx(1.0, abs=0.05)
    assert replication["replicated"]["web"]["replicas_per_request"] == pytest.approx(2.0, abs=0.05)


def test_the_mean_latency_of_a_tiers_servers_is_that_of_all_their_answers() -> None:
    polls = [
        {"time_s": at_s, "tier": "db", "received": count, "replicas_sent": count,
         "replicas_wasted": 0, "wasted_us": 0, "latency_us_sum": each_us * count,
         "latency_count": count}
        for at_s, count in ((1.0, 10), (9.0, 30))
        for each_us in (1_000, 4_000)
    ]  # fmt: skip
    load_by_arm = replication_load(pl.DataFrame(polls), {"both": [(0.0, 10.0)]})
    assert load_by_arm["both"]["db"]["server_ms"] == pytest.approx(2.5)


def test_disagreement_is_counted_where_replies_were_compared(
    run: FakeRun, summary: dict[str, Any]
) -> None:
    assert summary["agreement"] == {}, "no arbiter compared"
    comparing = run.arbiters.with_columns(replies_equal="received",
                                         replies_different=pl.col("received") // 10,
                                         replies_not_compared=pl.lit(0),
                                         replies_refused=pl.lit(0))  # fmt: skip
    body = run.summary(arbiters=comparing)
    web = body["agreement"]["replicated"]["web"]
    assert web["equal"] == body["replication"]["replicated"]["web"]["received"]
    assert web["different"] == pytest.approx(web["equal"] / 10, abs=20)
    assert web["refused"] == 0


def test_an_arbiter_that_restarted_in_a_block_leaves_the_block_out(
    run: FakeRun, summary: dict[str, Any]
) -> None:
    middle_s = 5.0 + 10.0 + 20.0
    reset = run.arbiters.with_columns(
        received=pl.when(pl.col("time_s") > middle_s)
        .then(pl.col("received") - 10**6)
        .otherwise("received")
    )
    replication = run.summary(arbiters=reset)["replication"]
    complete = summary["replication"]
    assert replication["replicated"]["web"] == complete["replicated"]["web"]
    assert replication["baseline"]["web"]["received"] < complete["baseline"]["web"]["received"]


def test_a_summary_from_files_is_that_from_frames(
    run: FakeRun, summary: dict[str, Any], tmp_path: Path
) -> None:
    run.write(tmp_path)
    assert flat(read_result(tmp_path)) == json.loads(json.dumps(summary))
