"""The words and the table on a plan's prediction, without a page around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.design.prediction import Prediction
from experiments.kinds.compare.cost import cost_sentence, cost_table
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.predicted import (
    availability_words,
    coverage_words,
    predicted_table,
    promise_sentence,
    promise_table,
    verdict_sentence,
)
from experiments.tests.planned_fixture import machines, planned_run, prediction
from experiments.tests.report_fixture import FakeRun


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return planned_run(measure_s=30.0)


def summary_of(run: FakeRun, plan: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The summary of a run of a plan's fleet; `changes` are the manifest's."""
    predicted_plan = Prediction.model_validate(plan or run.prediction)
    return run.summary(
        manifest={**run.manifest, **changes}, hosts=run.hosts, prediction=predicted_plan
    )


def rows_of(summary: dict[str, Any]) -> dict[str, list[str]]:
    table = predicted_table(summary["predicted"])
    assert {len(row) for row in table.rows} == {len(table.head)}
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_every_figure_of_the_plan_has_a_row_and_a_verdict(run: FakeRun) -> None:
    rows = rows_of(summary_of(run))
    assert list(rows) == [
        "arrival rate, 1/s", "neighbours, web", "neighbours, db", "p50", "p95", "p99",
        "CPU over caps, web", "CPU over caps, db", "cost a month", "availability over a year",
    ]  # fmt: skip
    assert rows["p50"][3] == "no prediction"
    assert rows["p95"][0] == "231 ms"
    assert rows["p95"][3].startswith("measured ")
    assert rows["p95"][3].endswith(" % below it")
    assert rows["p99"][3] == "insufficient: 9 beyond"
    assert rows["cost a month"] == ["70.00 USD", "70.00 USD", "–", "the planned machines"]
    assert rows["availability over a year"][1] == "not measured"


def test_a_figure_far_above_is_told_in_times(run: FakeRun) -> None:
    summary = summary_of(run, prediction(predicted={"p95_ms": 20.0, "p99_ms": None}))
    assert "times it" in rows_of(summary)["p95"][3]
    assert "times the prediction; p99 was not predicted" in verdict_sentence(summary)


def test_a_prediction_that_holds_is_said_in_the_sentence(run: FakeRun) -> None:
    measured_ms = summary_of(run)["predicted"]["latency"]["p95_ms"]["measured"]
    summary = summary_of(run, prediction(predicted={"p95_ms": measured_ms, "p99_ms": 100.0}))
    sentence = verdict_sentence(summary)
    assert "which the prediction is within" in sentence
    assert "with 9 beyond it, too few" in sentence
    assert rows_of(summary)["p95"][3] == "within the interval"


def test_another_fleet_than_planned_is_called_an_error(run: FakeRun) -> None:
    summary = summary_of(run, fleet={"machines": machines()[1:]})
    assert "web: 3 + 0 spare of slice-0.6 ran, 4 + 0 of slice-0.6 were planned" in (
        verdict_sentence(summary)
    )
    assert rows_of(summary)["cost a month"][3].startswith("an error")
    assert verdict_sentence(summary_of(run, verdicts={})).startswith("This run is not valid")


def test_what_was_not_predicted_or_not_measured_is_named(run: FakeRun) -> None:
    plan = prediction(inputs={}, predicted={"p95_ms": None})
    empty = planned_run(measure_s=30.0)
    empty.requests, empty.hosts = empty.requests.head(0), empty.hosts.head(0)
    assert rows_of(summary_of(run, plan))["CPU over caps, db"][3] == "no prediction"
    assert rows_of(summary_of(run, plan))["p95"][3] == "no prediction"
    assert rows_of(summary_of(empty))["CPU over caps, db"][3] == "not measured"
    assert rows_of(summary_of(empty))["p95"][3] == "not measured"


def test_what_a_run_of_minutes_cannot_say_of_a_year_is_said(run: FakeRun) -> None:
    text = " ".join(availability_words(summary_of(run)["predicted"]))
    assert "is not measured by a run of" in text
    assert "0 crashes of their own in" in text
    assert "expected from the stated 1 a node and year" in text
    assert "fail-over of 15 s and repair of 1 day were not put to the test" in text
    spec = {**run.manifest["spec"], "rates": {}}
    text_without_rate = " ".join(availability_words(summary_of(run, spec=spec)["predicted"]))
    assert "The design states no crash rate" in text_without_rate
    assert "put to the test" not in text_without_rate


@pytest.fixture
def promised(run: FakeRun) -> dict[str, Any]:
    """The summary of a run whose p95 limit is far above, and p99's far below what was measured."""
    slo = {"p95_ms": 5000.0, "p99_ms": 1.0, "preregistered": True}
    spec = {**run.manifest["spec"], "slo": slo}
    return summary_of(run, prediction(present={"usd_per_month": 90.0}), spec=spec)


def test_each_limit_of_the_promise_is_answered_and_what_broke_it_and_both_costs_said(
    run: FakeRun, promised: dict[str, Any]
) -> None:
    table = promise_table(promised)
    assert table is not None
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert [row[-1].text for row in table.rows] == ["kept", "broken"]
    assert [row[-1].mood for row in table.rows] == ["good", "bad"]
    assert [row[1].text for row in table.rows] == ["–", "–"]
    assert all(" to " in row[2].about for row in table.rows)
    sentence = promise_sentence(promised)
    assert "broken by p99" in sentence
    assert "p95" not in sentence
    assert "70.00 USD" in sentence
    assert "90.00 USD" in sentence
    assert promise_table(run.summary()) is None
    assert "--close-minutes" not in sentence
    promised["promise"]["verdict"] = "undecided"
    assert promise_sentence(promised).endswith("decide it: run --close --close-minutes 20.")


def test_a_planned_fleets_cost_stands_beside_that_of_the_fleet_before(
    run: FakeRun, promised: dict[str, Any]
) -> None:
    folder = RunFolder(Path(), manifest=run.manifest, summary=promised)
    folder.plan = {"feasible": True, "usd_per_month": 12.0}  # which this run makes in turn
    table = cost_table(folder)
    assert table is not None
    assert [row[0].text for row in table.rows] == ["fleet before", "planned fleet", "difference"]
    assert [row[2].text for row in table.rows] == ["90.00 USD", "70.00 USD", "-20.00 USD"]
    assert cost_sentence(folder) == ""


def test_a_plan_that_was_undecided_is_not_said_to_have_broken_a_promise(
    promised: dict[str, Any],
) -> None:
    promised["promise"]["claimed"] = False
    sentence = promise_sentence(promised)
    assert sentence.startswith("The plan was undecided and promised nothing; its fleet misses")
    assert "by p99" in sentence
    table = promise_table(promised)
    assert table is not None
    assert table.head[-1] == "SLO"
    assert [row[-1].text for row in table.rows] == ["met", "missed"]
    promised["promise"]["refused"] = True
    assert promise_sentence(promised).startswith("The plan refused this cheaper fleet; its fleet")


def test_figures_with_an_interval_are_counted_and_those_without_are_not_spoken_of(
    run: FakeRun, promised: dict[str, Any]
) -> None:
    assert coverage_words(promised) == ""
    error = {"predicted_ms": 231.0, "log_spread": 0.7, "freedom": 4.0}
    summary = summary_of(run, prediction(margin={"p95_ms": error, "p99_ms": None}))
    assert summary["promise"]["figures"]["judged"] == 1
    assert "90 %" in coverage_words(summary)
    cell = next(
        row[1] for row in predicted_table(summary["predicted"]).rows if row[0].text == "p95"
    )
    assert " to " in cell.about
