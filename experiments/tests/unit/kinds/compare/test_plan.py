"""The plan that a comparison is written with, its availability, and figures by stage."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.vocabulary import Mechanism
from experiments.kinds.compare import analysis
from experiments.kinds.compare.availability import missed_words, modelled, nines
from experiments.kinds.compare.cost import costs
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.plan import (
    TIER_FIGURES,
    plan_table,
    plan_words,
    simulated_plan_table,
)
from experiments.kinds.compare.terminal import _planned
from experiments.kinds.compare.verdict import slo_table, verdict
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.stages import stage_figures
from experiments.tests import frames
from experiments.tests.report_fixture import example_plan
from optimizer.plan import planner
from optimizer.plan.outcome import TierPlan
from optimizer.simulation import program
from optimizer.tests import synthetic


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_run(tmp_path_factory.mktemp("measured") / "run", synthetic.Truth())


@pytest.fixture
def folder(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the measured run. Its plan computes neither fronts nor binding limits, which the
    optimizer's tests check."""
    monkeypatch.setattr(analysis, "_FRONT_S", 0.1)
    monkeypatch.setattr(planner, "binding_of", lambda *_: ())
    return Path(shutil.copytree(measured, tmp_path / "run"))


@pytest.mark.parametrize(("day", "old"), [("2031-02-01", True), (None, False)])
def test_its_prices_have_the_age_that_they_had_when_it_ran(
    folder: Path, monkeypatch: pytest.MonkeyPatch, day: str | None, old: bool
) -> None:
    monkeypatch.setattr(program, "PROGRAM", folder / "none")
    manifest = json.loads((folder / "manifest.json").read_text())
    if day is not None:  # old manifests do not say it
        manifest["started_at"] = f"{day}T09:30:00+00:00"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    analysis.write_plan_files(folder, "")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["feasible"] is not None, plan
    assert any("days old" in text for text in plan["warnings"]) is old
    assert plan["simulation"]["verdict"] == "not-simulated"  # as there is no simulator, it says
    assert str(folder / "none") in plan["simulation"]["reason"]
    assert plan["tfvars"]


def test_the_plan_of_a_run_that_does_not_count_is_undecided_and_no_fleet_to_make(
    folder: Path,
) -> None:
    analysis.write_plan_files(folder, "others took 74 %")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["feasible"] is None
    assert plan["tiers"]
    assert "others took 74 %" in plan["reasons"][0]
    assert not (folder / "plan.tfvars").exists()


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        ({"feasible": True, "tiers": {"web": {}}}, "feasible"),
        ({"feasible": False, "reasons": ["p99"]}, "infeasible"),
        ({"feasible": None, "tiers": {"web": {}}, "reasons": ["not valid"]}, "undecided"),
        ({"feasible": None, "insufficient": ["p99"], "reasons": ["few"]}, "undecided"),
        ({"feasible": None, "reasons": ["no prices"]}, "missing"),
        ({}, "missing"),
    ],
)
def test_thin_evidence_and_a_run_that_does_not_count_deny_no_fleet(
    plan: dict[str, Any], state: str
) -> None:
    assert plan_words(plan)["state"] == state
    if plan.get("feasible") is None:
        text = _planned(plan)
        assert all(reason in text for reason in plan.get("reasons", ()))
        assert "No fleet within" not in text


@pytest.mark.parametrize("verdict", ["kept", "undecided", "not-simulated", None])
def test_a_plan_that_is_not_proved_is_not_called_the_cheapest(verdict: str | None) -> None:
    plan = {**example_plan(), "simulation": {"verdict": verdict, "reason": ""}}
    proved_claim, unproved_claim = (
        plan_words({**plan, "solver": {"proved": proved}})["claim"] for proved in (True, False)
    )
    assert "not proved" not in str(proved_claim)
    assert "not proved" in str(unproved_claim)


@pytest.mark.parametrize("verdict", ["kept", "undecided", "not-simulated", None])
def test_a_plan_is_said_with_who_says_that_it_keeps_the_slo(verdict: str | None) -> None:
    simulation = {} if verdict is None else {"verdict": verdict, "reason": "no time"}
    plan = {**example_plan(), "simulation": simulation}
    values: Any = plan_words(plan)
    text = _planned(plan)
    assert ("simulation" in " ".join(values["claim"])) is (verdict in ("kept", "undecided"))
    assert ("no time" in text) is (verdict in ("undecided", "not-simulated"))


def test_a_simulated_plan_shows_each_figure_with_its_interval() -> None:
    latency = {"point": 250.0, "low": 200.0, "high": 300.0}
    share = {"point": 0.01, "low": 0.0, "high": 0.02}
    simulated: dict[str, Any] = {f"p{q}_ms": latency for q in (50, 95, 99)}
    simulated |= {"share_beyond": {"600": share}, "cpu": {"web": share}, "failed_share": share}
    distribution = {
        "confidence": 0.9,
        "pages": 1000,
        "with_faults": simulated,
        "without_faults": simulated,
    }
    plan = {**example_plan(), "predicted": {"distribution": distribution}}
    table = simulated_plan_table(plan)
    assert table is not None
    figures = [row[0].text for row in table.rows]
    assert figures == ["p50", "p95", "p99", "beyond 600 ms", "CPU of web"]
    assert "200" in table.rows[1][2].text
    assert simulated_plan_table(example_plan()) is None


def test_the_planned_fleet_is_told_in_plain_words() -> None:
    table = plan_table(example_plan())
    assert table is not None
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert set(rows) <= set(TIER_FIGURES.values())
    assert rows[TIER_FIGURES["mechanism"]] == 2 * [Mechanism.pf.words]
    assert rows[TIER_FIGURES["needed"]] == ["3", "3"]
    assert TIER_FIGURES["variant"] not in rows, "no tier has one"


def test_each_figure_of_a_planned_tier_has_words_of_its_own() -> None:
    assert {field.name for field in fields(TierPlan)} == set(TIER_FIGURES)
    assert len(set(TIER_FIGURES.values())) == len(TIER_FIGURES)


def test_an_undecided_plan_has_no_price(tmp_path: Path) -> None:
    decided_plan, undecided_plan = example_plan(), {**example_plan(), "feasible": None}
    assert [
        costs(RunFolder(tmp_path, plan=plan))[1] for plan in (decided_plan, undecided_plan)
    ] == [
        106.29,
        None,
    ]


def plan(breaks: list[str], keeps: bool | None, **parts: Any) -> dict[str, Any]:
    present = {"keeps_all_limits": keeps, "breaks": breaks, "predicted": {"availability": 0.99723}}
    inputs = {"slo": {"availability": 0.999}}
    return {"feasible": True, "present": present, "inputs": inputs, **parts}


@pytest.mark.parametrize(
    ("made", "met"),
    [(plan(["availability"], False), False), (plan(["utilisation"], False), True),
     (plan([], True), True), (plan(["availability"], None), None)],
)  # fmt: skip
def test_the_present_fleet_s_availability_is_kept_broken_or_undecided(
    made: dict[str, Any], met: bool | None
) -> None:
    availability = modelled(made)
    assert availability == {"asked": 0.999, "predicted": 0.99723, "met": met}
    assert bool(missed_words({"met": True, "availability": availability}, made)) is (met is False)


@pytest.mark.parametrize(
    "made",
    [{}, plan([], True, present=None), plan(["availability"], False, feasible=None),
     plan(["availability"], False, inputs={"slo": {"availability": None}})],
)  # fmt: skip
def test_a_plan_that_does_not_say_gives_no_availability(made: dict[str, Any]) -> None:
    assert modelled(made) is None
    assert missed_words({"met": True, "availability": None}, made) == ""
    assert missed_words(None, made) == ""


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5258666298, "52.6 %"), (0.99723, "99.723 %"), (0.999, "99.9 %"), (1.0, "100 %"),
     (0.9999999123, "99.99999123 %"), (0.0, "0 %")],
)  # fmt: skip
def test_no_nine_of_an_availability_is_rounded_away(share: float, text: str) -> None:
    assert nines(share) == text


@pytest.mark.parametrize(
    ("repair_s", "text"),
    [(None, "(crashes per machine and year: 1; no repair in the year)"),
     (86400.0, "(crashes per machine and year: 1; repair after 1 day)")],
)  # fmt: skip
def test_a_missed_availability_names_the_rates_it_rests_on(
    repair_s: float | None, text: str
) -> None:
    rates = {"crash_per_year": 1.0, "repair_s": repair_s}
    made = plan(["availability"], False, inputs={"slo": {"availability": 0.999}, "rates": rates})
    assert text in missed_words({"met": True, "availability": modelled(made)}, made)


def test_a_fleet_that_met_what_was_measured_is_not_said_to_keep_its_availability() -> None:
    arms = {"only": {"met": True, "limits": {"p95_ms": True}, "reasons": []}}
    limits = {"p95_ms": 500.0, "availability": 0.999}
    slo = {"asked": limits, "met": True, "arms": arms, "availability": None}
    run = RunFolder(Path("nowhere"), summary={"valid": True, "slo": slo}, arms=["only"])
    verdict_before, table_before = verdict(run), slo_table(run)
    slo["availability"] = modelled(plan(["availability"], False))
    table = slo_table(run)
    assert table is not None
    assert table_before is not None
    for text, text_before in (
        (verdict(run), verdict_before),
        (table.caption, table_before.caption),
    ):
        assert "99.723 %" in text
        assert "99.723 %" not in text_before


def test_a_result_has_the_measured_and_the_modelled_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "against", lambda _: "")  # the made-up run has no verdicts
    findings = analysis.analyse(folder)
    plan_json = json.loads((folder / "plan.json").read_text())
    assert plan_json["present"] is not None
    assert findings.slo is not None
    assert findings.slo["availability"] == modelled(plan_json)
    assert findings.slo["availability"]["asked"] == synthetic.Truth().slo["availability"]


STAGES = [
    {"duration": 10.0, "target": 50.0, "ramp": "linear"},
    {"duration": 5.0, "target": 20.0, "ramp": "step"},
]
SPEC = {"load": {"stages": STAGES}, "phases": {"warm_up": 2.0, "measure": 15.0}}
# Two blocks, whose clocks begin at 100 s and 200 s of the run.
MANIFEST = {
    "spec": SPEC,
    "load": {"blocks": [{"repeat": 0, "start_s": 100.0}, {"repeat": 1, "start_s": 200.0}]},
}


def requests(*starts: tuple[int, float, float]) -> pl.DataFrame:
    """Requests of (block, intended start since the run's begin [s], latency [ms])."""
    rows = (
        {"repeat": repeat, "intended_s": at_s, "latency_ms": latency_ms}
        for repeat, at_s, latency_ms in starts
    )
    return prepared(frames.requests(rows), 8000.0)


def test_a_request_counts_in_the_stage_of_its_intended_start_in_its_own_block() -> None:
    frame = requests((0, 102.0, 1.0), (0, 111.9, 2.0), (0, 112.0, 7.0), (1, 216.9, 9.0))
    first_stage, last_stage = stage_figures(frame, ["baseline"], MANIFEST)
    assert (first_stage["begin_s"], first_stage["end_s"], last_stage["end_s"]) == (2.0, 12.0, 17.0)
    figures = first_stage["arms"]["baseline"]
    assert (figures["requests"], figures["mean_ms"], figures["duration_s"]) == (2, 1.5, 10.0)
    figures = last_stage["arms"]["baseline"]
    assert (figures["requests"], figures["mean_ms"], figures["duration_s"]) == (2, 8.0, 10.0)
    assert (last_stage["target_per_s"], last_stage["ramp"]) == (20.0, "step")


def test_a_stage_in_which_nothing_came_has_no_figures_and_is_shown() -> None:
    first_stage, last_stage = stage_figures(requests((0, 103.0, 1.0)), ["baseline"], MANIFEST)
    assert first_stage["arms"]["baseline"]["requests"] == 1
    assert (
        last_stage["arms"]["baseline"]["requests"],
        last_stage["arms"]["baseline"]["p95_ms"],
    ) == (0, None)


def test_a_steady_load_and_a_run_of_before_have_no_stages() -> None:
    frame = requests((0, 103.0, 1.0))
    steady_manifest = {**MANIFEST, "spec": {**SPEC, "load": {}}}
    older_manifest = {**MANIFEST, "load": {"blocks": [{"repeat": 0}]}}
    for manifest in (steady_manifest, older_manifest, {}):
        assert stage_figures(frame, ["baseline"], manifest) == []
