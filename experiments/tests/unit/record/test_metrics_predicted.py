"""Predicted against measured: what is compared with what, and what is not concluded."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.design.prediction import Prediction
from experiments.record.metrics.bootstrap import intervals, quantile_value
from experiments.tests.bursts import bursty, in_the_long_run
from experiments.tests.planned_fixture import CPU_SHARE, machines, planned_run, prediction
from experiments.tests.report_fixture import FakeRun, event


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return planned_run(measure_s=40.0)


def predicted_of(run: FakeRun, plan: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return the comparison of a run; `changes` replace some of its parts."""
    forecast = Prediction.model_validate(plan or run.prediction)
    return run.summary(**{"hosts": run.hosts, "prediction": forecast, **changes})["predicted"]


def test_intervals_of_p95_cover_the_truth_about_as_often_as_they_claim() -> None:
    blocks, drift_sd, one_arm = 4, 0.1, (3.0,)
    p95 = quantile_value(0.95)
    truth, trials, covered = p95(*in_the_long_run(2000, drift_sd, one_arm)), 60, 0
    for trial in range(trials):
        rng = np.random.default_rng((blocks, trial))
        sample = [bursty(rng, drift_sd, one_arm) for _ in range(blocks)]
        bounds = intervals(sample, {"p95": lambda arms: p95(arms[0])}, block_s=10.0, rng=rng)["p95"]
        assert bounds is not None
        covered += bounds[1] <= truth <= bounds[2]
    # Nominal 95 %. Fewer than 49 of 60 has a chance of 4e-5 at 95 %, 5 % at 88 %, 55 % at 80 %.
    assert covered >= 49, f"{covered} of {trials} intervals covered {truth:.3f}"


def test_a_prediction_is_within_where_the_interval_holds_it_and_off_where_not(run: FakeRun) -> None:
    p95 = predicted_of(run)["latency"]["p95_ms"]
    assert p95["samples"] == run.requests.filter(pl.col("phase") == "measure").height
    assert p95["within"] is False
    assert p95["off_share"] == pytest.approx(p95["measured"] / 231.0 - 1.0)
    right = prediction(predicted={"p95_ms": p95["measured"], "p99_ms": 100.0})
    assert predicted_of(run, right)["latency"]["p95_ms"]["within"] is True


def test_load_and_cpu_of_a_plan_that_is_right_are_within(run: FakeRun) -> None:
    comparison = predicted_of(run)
    assert comparison["arrival_rate_per_s"]["within"] is True
    for tier in ("web", "db"):
        entry = comparison["utilisation"][tier]
        assert entry["predicted"] == pytest.approx(CPU_SHARE)
        assert entry["measured"] == pytest.approx(CPU_SHARE)
        assert entry["within"] is True
        assert entry["samples"] > 100
        assert 0.0 < comparison["disturbed_share"][tier]["measured"] < 0.5


def test_disturbed_machines_do_not_count_as_used(run: FakeRun) -> None:
    """They are busy with a neighbour's work: 96 % of the cap in these records."""
    blind = [line for line in run.events if line["what"] != "interference"]
    machine_share, blind_share = (predicted_of(run, events=events)["utilisation"]["web"]["measured"]
                    for events in (run.events, blind))  # fmt: skip
    assert machine_share == pytest.approx(CPU_SHARE)
    assert blind_share > 1.1 * machine_share


def test_requests_in_the_faults_are_shown_beside_and_not_held_against_the_plan(
    run: FakeRun,
) -> None:
    calm = predicted_of(run)["latency"]["p95_ms"]
    late = (pl.col("phase") == "measure") & (pl.col("index") % 4 == 0)
    hit = run.requests.with_columns(
        phase=pl.when(late).then(pl.lit("fault")).otherwise("phase"),
        latency_ms=pl.when(late).then(5000.0).otherwise("latency_ms"),
    )
    p95 = predicted_of(run, requests=hit)["latency"]["p95_ms"]
    assert p95["measured"] < 2 * calm["measured"]
    assert p95["with_faults"] == 5000.0
    assert p95["samples_with_faults"] > p95["samples"]


def test_a_percentile_of_too_few_requests_decides_nothing(run: FakeRun) -> None:
    few = run.requests.filter(pl.col("index") % 5 == 0)
    p99 = predicted_of(run, requests=few)["latency"]["p99_ms"]
    assert p99["samples_beyond"] < 10
    assert p99["insufficient"] is True
    assert p99["within"] is None


def test_one_block_has_no_interval_of_rates_but_one_of_percentiles(run: FakeRun) -> None:
    first_block = run.requests.filter(pl.col("repeat") == 0)
    comparison = predicted_of(run, requests=first_block)
    assert comparison["blocks"] == 1
    assert comparison["arrival_rate_per_s"]["within"] is None
    assert comparison["latency"]["p95_ms"]["ci_low"] < comparison["latency"]["p95_ms"]["measured"]


def test_intervals_stay_within_what_a_share_can_be(run: FakeRun) -> None:
    """Two blocks that disagree: Student's interval would go below 0 and above 1."""
    two_blocks = run.requests.filter(pl.col("repeat") < 2)
    lines = [line for line in run.events
            if line["what"] != "interference" or line["repeat"] == 1]  # fmt: skip
    for entry in predicted_of(run, requests=two_blocks, events=lines)["disturbed_share"].values():
        assert entry["ci_low"] == 0.0
        assert entry["ci_high"] <= 1.0


def test_the_planned_machines_cost_what_was_planned_to_the_cent(run: FakeRun) -> None:
    rounded = prediction(usd_per_month=70.01)  # the plan's tiers are rounded one by one
    cost = predicted_of(run, rounded)["cost_usd_per_month"]
    assert cost["errors"] == []
    assert cost["measured"] == 70.01
    assert cost["machines"] == {"web": {"nodes": 4, "spares": 0}, "db": {"nodes": 3, "spares": 0}}


def with_machines(run: FakeRun, *machine_rows: dict[str, Any]) -> dict[str, Any]:
    return {"manifest": {**run.manifest, "fleet": {"machines": list(machine_rows)}}}


def test_a_machine_more_than_planned_is_an_error_with_its_price(run: FakeRun) -> None:
    fleet = machines()
    spare = {**fleet[0], "name": "web-5", "standby": True}
    parts = with_machines(run, *fleet, spare)
    cost = predicted_of(run, **parts)["cost_usd_per_month"]
    assert cost["measured"] == pytest.approx(80.0)
    [error] = cost["errors"]
    assert "web: 4 + 1 spare" in error
    # Where the plan says what a standby costs, that is its price.
    web, db = prediction()["tiers"].values()
    web = {**web, "spares": 2, "usd_per_month": 44.0}
    web |= {"usd_active_per_month": 40.0, "usd_standby_per_month": 4.0}
    plan = prediction(tiers={"web": web, "db": db}, usd_per_month=74.0)
    cost = predicted_of(run, plan, **parts)["cost_usd_per_month"]
    assert cost["measured"] == pytest.approx(72.0)
    assert "4 + 1 spare" in cost["errors"][0]
    parts_of_unknown_type = with_machines(run, *machines(web_type="t3.huge"))
    cost = predicted_of(run, **parts_of_unknown_type)["cost_usd_per_month"]
    assert cost["measured"] is None, "the plan has no price of it"
    assert "t3.huge" in cost["errors"][0]


def test_an_availability_over_a_year_is_never_measured(run: FakeRun) -> None:
    row = predicted_of(run)["availability"]
    assert row["predicted"] == 0.99993
    assert row["measured"] is None
    assert row["crashes_seen"] == 0
    assert row["all_nodes_up_share"] == 1.0
    years = row["node_hours"] / 8760.0
    assert row["crashes_expected"] == pytest.approx(years)
    assert row["crash_per_year_max"] * years == pytest.approx(-math.log(0.05))  # none seen
    manifest = {**run.manifest, "spec": {**run.manifest["spec"], "rates": {}}}
    bare_row = predicted_of(run, manifest=manifest)["availability"]
    assert (bare_row["crash_per_year_stated"], bare_row["crashes_expected"]) == (None, None)


def test_a_lost_machine_and_a_stopping_fault_are_counted_apart(run: FakeRun) -> None:
    start_s = 5.0 + 10.0 + 5.0
    tags: dict[str, Any] = {"arm": "planned", "repeat": 0}
    extra = [
        event(start_s, "machine", "lost", "start", machine="db-2", **tags),
        event(start_s + 4.0, "machine", "lost", "end", machine="db-2", **tags),
        event(start_s + 2.0, "fault", "machine.crash", "inject", machine="web-1", id="c", **tags),
        event(start_s + 8.0, "fault", "machine.crash", "revert", machine="web-1", id="c", **tags),
        event(start_s + 9.0, "machine", "lost", "start", machine="influxdb-1", **tags),
    ]
    row = predicted_of(run, events=run.events + extra)["availability"]
    assert row["crashes_seen"] == 1
    assert row["stopping_faults_injected"] == 1
    assert (1.0 - row["all_nodes_up_share"]) * row["watched_s"] == pytest.approx(8.0)


def test_without_host_samples_or_inputs_nothing_is_made_up(run: FakeRun) -> None:
    comparison = predicted_of(run, prediction(inputs={}), hosts=None)
    assert comparison["utilisation"]["web"]["measured"] is None
    assert comparison["utilisation"]["web"]["predicted"] is None
    assert comparison["arrival_rate_per_s"]["predicted"] is None
    assert comparison["arrival_rate_per_s"]["within"] is None
    assert comparison["disturbed_share"]["db"]["predicted"] is None
    assert comparison["source_run"] is None


def test_an_arm_that_was_never_measured_has_no_figures(run: FakeRun) -> None:
    comparison = predicted_of(run, requests=run.requests.head(0))
    assert comparison["latency"]["p95_ms"]["measured"] is None
    assert comparison["latency"]["p95_ms"]["insufficient"] is True
    assert comparison["availability"]["crash_per_year_max"] is None
    json.dumps(comparison, allow_nan=False)


def test_a_missed_prediction_does_not_fail_a_run(run: FakeRun) -> None:
    plan = Prediction.model_validate(prediction(predicted={"p95_ms": 1.0, "p99_ms": 1.0}))
    summary = run.summary(prediction=plan)
    assert summary["predicted"]["latency"]["p95_ms"]["within"] is False
    assert summary["valid"]
    assert summary["slo"]["met"]


def test_a_run_of_one_arm_has_nothing_to_compare_it_with(run: FakeRun) -> None:
    summary = run.summary()
    assert summary["predicted"] is None, "nothing was predicted"
    assert summary["compared"] == {"baseline": "planned", "other": None}
    for entry in summary["improvement"].values():
        assert entry["factor"] is None
        assert "one arm, planned" in entry["note"]
