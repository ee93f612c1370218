"""The promise of a plan: kept, broken or undecided, clause by clause, and what it does not say."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InputError
from experiments.design.prediction import LawError, PlanSimulation, Prediction, read_prediction
from experiments.kinds.compare import KIND
from experiments.record.manifest import Verdicts
from experiments.record.metrics.promise import promise_of
from experiments.record.records import write_json
from experiments.record.result import Findings, passed, result_of
from experiments.tests.planned_fixture import planned_run, prediction
from experiments.tests.report_fixture import FakeRun
from optimizer.plan.inputs.margin import LawError as PlannersError

P95 = {"point": 0.02, "low": 0.01, "high": 0.04}
FIGURES = {
    "p50_ms": {"point": 100.0, "low": 90.0, "high": 120.0},
    "p95_ms": {"point": 300.0, "low": 200.0, "high": 400.0},
    "share_beyond": {"600": P95},
    "failed_share": {"point": 0.0, "low": 0.0, "high": 0.001},
    "cpu": {"web": {"point": 0.4, "low": 0.3, "high": 0.5}},
}
WITH_FAULTS = {"share_beyond": {"600": {"point": 0.03, "low": 0.02, "high": 0.05}}}


def plan(with_faults: dict[str, Any] | None = None, **changes: Any) -> Prediction:
    """A plan with a distribution of 90 %."""
    distribution = {"confidence": 0.9, "without_faults": FIGURES, "with_faults": with_faults}
    values = prediction(present={"usd_per_month": 90.0}, **changes)
    values["predicted"] = {**values["predicted"], "distribution": distribution}
    return Prediction.model_validate(values)


def figure(**changes: Any) -> dict[str, Any]:
    in_all = {"covered": None}
    return {"covered": None, "samples": 900, "samples_with_faults": 900, "in_all": in_all} | changes


def compared(*, errors: tuple[str, ...] = (), **changes: Any) -> Any:
    return {
        "latency": {"p50_ms": figure(covered=True), "p95_ms": figure(covered=False)},
        "utilisation": {"web": {"covered": True}, "db": {"covered": None}},
        "cost_usd_per_month": {"measured": 70.0, "errors": list(errors)},
    } | changes


def slo(**met: bool | None) -> Any:
    """The SLO's verdict on the planned arm, by clause."""
    share = {"share": 0.03, "low": 0.02, "high": 0.045, "allowed": 0.05, "requests": 900}
    arm = {
        "limits": met,
        "shares": dict.fromkeys(met, share),
        "reasons": [f"{name}: against it" for name, verdict in met.items() if verdict is not True],
    }
    limits = {"p95_ms": 600.0, "p99_ms": 1000.0, "max_error_share": 0.01}
    return {"arms": {"planned": arm}, "asked": limits}


@pytest.mark.parametrize(
    ("met", "verdict"),
    [
        ({"p95_ms": True, "p99_ms": True, "max_error_share": True}, "kept"),
        ({"p95_ms": True, "p99_ms": False, "max_error_share": None}, "broken"),
        ({"p95_ms": True, "p99_ms": None, "max_error_share": True}, "undecided"),
        ({}, "undecided"),
    ],
)
def test_a_promise_is_kept_by_all_its_clauses_and_broken_by_one(
    met: dict[str, bool | None], verdict: str
) -> None:
    promise = promise_of(plan(), compared(), slo(**met))
    words = {True: "kept", False: "broken", None: "undecided"}
    assert promise["verdict"] == verdict
    assert {key: clause["verdict"] for key, clause in promise["clauses"].items()} == {
        key: words[verdict_of_slo] for key, verdict_of_slo in met.items()
    }
    assert bool(promise["reasons"]) == (verdict != "kept")
    assert promise["usd_per_month"] == {"before": 90.0, "after": 70.0}


@pytest.mark.parametrize(
    ("verdict", "claimed"), [("kept", True), ("undecided", False), ("refused", False)]
)
def test_a_plan_that_the_simulator_left_undecided_claims_nothing(
    verdict: str, claimed: bool
) -> None:
    simulated = plan().model_copy(update={"simulation": PlanSimulation(verdict=verdict)})
    assert promise_of(simulated, compared(), slo(p95_ms=True))["claimed"] is claimed
    assert promise_of(plan(), compared(), slo(p95_ms=True))["claimed"]


def test_a_clause_has_the_share_as_predicted_and_as_measured() -> None:
    promise = promise_of(plan(), compared(), slo(p95_ms=True, p99_ms=True))
    clause: Any = promise["clauses"]["p95_ms"]
    assert (clause["limit"], clause["allowed"], clause["share"]) == (600.0, 0.05, 0.03)
    assert (clause["low"], clause["high"]) == (0.02, 0.045)
    assert [clause[key] for key in ("predicted_low", "predicted", "predicted_high")] == [
        0.01, 0.02, 0.04,
    ]  # fmt: skip
    assert clause["covered"] is True


def test_with_faults_a_share_is_held_against_the_prediction_with_faults_or_none() -> None:
    hit = {"p95_ms": figure(samples_with_faults=1200)}
    faults = compared(latency=hit)
    known = promise_of(plan(WITH_FAULTS), faults, slo(p95_ms=True))["clauses"]["p95_ms"]
    assert known["predicted"] == 0.03
    unknown = promise_of(plan(), faults, slo(p95_ms=True))["clauses"]["p95_ms"]
    assert (unknown["predicted"], unknown["covered"]) == (None, None)


def test_another_fleet_than_planned_neither_keeps_nor_breaks_the_promise() -> None:
    promise = promise_of(plan(), compared(errors=("web: 3 ran",)), slo(p95_ms=False))
    assert promise["verdict"] == "undecided"
    assert "web: 3 ran" in promise["reasons"][0]


def test_figures_without_an_interval_or_too_few_requests_are_not_judged() -> None:
    promise = promise_of(plan(), compared(), slo(p95_ms=True, p99_ms=True))
    assert promise["figures"] == {"judged": 4, "covered": 3}  # p50, p95, web's CPU, the p95 clause
    bare = Prediction.model_validate(prediction())
    nothing = compared(latency={"p95_ms": figure()}, utilisation={})
    promise = promise_of(bare, nothing, slo(p95_ms=True))
    assert promise["figures"] == {"judged": 0, "covered": 0}


def verdicts(*reasons: str) -> dict[str, Any]:
    run_verdicts = Verdicts()
    for reason in reasons:
        run_verdicts.measurement.fail(reason)
    return run_verdicts.to_json()


def judged(reasons: tuple[str, ...] = (), blocks: tuple[Any, ...] = ()) -> dict[str, Any]:
    promise = promise_of(plan(), compared(), slo(p95_ms=False))
    manifest = {"host": {"blocks": list(blocks)}}
    findings = Findings({}, verdicts(*reasons), slo={"met": False}, promise=promise)
    return result_of("compare", manifest, findings)


def test_a_broken_promise_fails_a_valid_run_and_is_undecided_in_another() -> None:
    valid_result = judged()
    assert (valid_result["promise"]["verdict"], passed(valid_result)) == ("broken", False)
    for undecided in (judged(("late",)), judged(blocks=({"others_share": 0.5},))):
        assert undecided["promise"]["verdict"] == "undecided"
        assert {clause["verdict"] for clause in undecided["promise"]["clauses"].values()} == {
            "undecided"
        }
        assert undecided["promise"]["figures"]["judged"] == 0
        assert undecided["promise"]["reasons"]
        assert not passed(undecided)


def test_a_list_of_runs_says_what_became_of_the_promise() -> None:
    result = judged()
    result["compare"]["arms"] = {"planned": {}}
    assert KIND.row(result) == {"promise": "broken"}
    unclaimed = {**result["promise"], "claimed": False}
    assert KIND.row({**result, "promise": unclaimed}) == {"nothing promised, SLO": "missed"}
    refused = {**unclaimed, "refused": True}
    assert KIND.row({**result, "promise": refused}) == {"refused by the plan, SLO": "missed"}
    assert KIND.row({**result, "promise": None}) == {"arms": 1}


def test_a_run_without_a_plan_has_no_promise() -> None:
    assert result_of("compare", {}, Findings({}, verdicts()))["promise"] is None


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return planned_run(measure_s=30.0)


def test_the_run_of_a_plan_says_its_promise_with_the_slo(run: FakeRun) -> None:
    summary = run.summary(hosts=run.hosts, prediction=plan())
    words = {"met": "kept", "missed": "broken", "undecided": "undecided"}
    assert summary["promise"]["verdict"] == words[summary["slo"]["verdict"]]
    assert summary["promise"]["source_run"] == run.prediction["inputs"]["run"]
    assert set(summary["promise"]["clauses"]) == set(summary["slo"]["arms"]["planned"]["limits"])
    p50 = summary["predicted"]["latency"]["p50_ms"]
    assert (p50["predicted"], p50["predicted_low"], p50["predicted_high"]) == (100.0, 90.0, 120.0)
    assert p50["covered"] is (90.0 <= p50["measured"] <= 120.0)
    cpu = summary["predicted"]["utilisation"]["web"]
    assert (cpu["predicted"], cpu["covered"]) == (0.4, True)


def test_without_a_distribution_the_law_s_error_is_the_interval() -> None:
    error = {"predicted_ms": 558.0, "log_spread": 0.68, "freedom": 4.0}
    p95 = Prediction.model_validate(prediction(margin={"p95_ms": error})).expected.p95_ms
    assert p95 is not None
    assert p95.point == 558.0
    assert p95.high / p95.point == pytest.approx(p95.point / p95.low)
    probability = PlannersError(0.68, 4.0, "").probability_within(
        558.0, p95.high
    )  # as the plan computes it
    assert probability == pytest.approx(0.95)


@pytest.mark.parametrize(
    "error",
    [
        {"predicted_ms": 558.0, "log_spread": None, "freedom": 4.0},
        {"predicted_ms": 558.0, "log_spread": 40.0, "freedom": 1.0},
    ],
)
def test_a_law_whose_error_is_unknown_or_has_no_bound_gives_no_interval(error: Any) -> None:
    assert LawError.model_validate(error).expected is None


def test_an_interval_that_does_not_hold_its_figure_is_refused(tmp_path: Any) -> None:
    values = prediction()
    wrong = {"point": 3.0, "low": 4.0, "high": 5.0}
    values["predicted"]["distribution"] = {
        "confidence": 0.9, "without_faults": {"p95_ms": wrong},
    }  # fmt: skip
    write_json(tmp_path / "plan.json", values)
    with pytest.raises(InputError) as caught:
        read_prediction(tmp_path / "plan.json")
    assert "predicted.distribution.without_faults.p95_ms" in str(caught.value)
