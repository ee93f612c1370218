"""The plan that a comparison is written with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.kinds.compare import analysis
from experiments.kinds.compare.cost import costs
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.plan import plan_words, simulated_plan_table
from experiments.kinds.compare.terminal import _planned
from experiments.tests.report_fixture import example_plan
from optimizer.simulation import program
from optimizer.tests import synthetic


@pytest.mark.parametrize(
    ("day", "old"), [("2025-02-01", False), ("2031-02-01", True), (None, False)]
)
def test_its_prices_have_the_age_that_they_had_when_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: str | None, old: bool
) -> None:
    monkeypatch.setattr(analysis, "_FRONT_S", 0.1)
    monkeypatch.setattr(program, "PROGRAM", tmp_path / "none")
    folder = synthetic.write_run(tmp_path / "run", synthetic.Truth())
    manifest = json.loads((folder / "manifest.json").read_text())
    if day is not None:  # old manifests do not say it
        manifest["started_at"] = f"{day}T09:30:00+00:00"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    analysis.write_plan_files(folder, "")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["feasible"] is not None, plan
    assert any("days old" in text for text in plan["warnings"]) is old
    assert plan["simulation"]["verdict"] == "not-simulated"  # as there is no simulator, it says
    assert str(tmp_path / "none") in plan["simulation"]["reason"]
    assert plan["tfvars"]


def test_the_plan_of_a_run_that_does_not_count_is_undecided_and_no_fleet_to_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "_FRONT_S", 0.1)
    folder = synthetic.write_run(tmp_path / "run", synthetic.Truth())
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
        said = _planned(plan)
        assert all(reason in said for reason in plan.get("reasons", ()))
        assert "No fleet within" not in said


@pytest.mark.parametrize("verdict", ["kept", "undecided", "not-simulated", None])
def test_a_plan_is_said_with_who_says_that_it_keeps_the_slo(verdict: str | None) -> None:
    simulation = {} if verdict is None else {"verdict": verdict, "reason": "no time"}
    plan = {**example_plan(), "simulation": simulation}
    words, said = plan_words(plan), _planned(plan)
    assert ("simulation" in " ".join(words["claim"])) is (verdict in ("kept", "undecided"))
    assert ("no time" in said) is (verdict in ("undecided", "not-simulated"))


def test_a_simulated_plan_shows_each_figure_with_its_interval() -> None:
    one = {"point": 250.0, "low": 200.0, "high": 300.0}
    share = {"point": 0.01, "low": 0.0, "high": 0.02}
    shown: dict[str, Any] = {f"p{q}_ms": one for q in (50, 95, 99)}
    shown |= {"share_beyond": {"600": share}, "cpu": {"web": share}, "failed_share": share}
    distribution = {"confidence": 0.9, "pages": 1000, "with_faults": shown, "without_faults": shown}
    plan = {**example_plan(), "predicted": {"distribution": distribution}}
    table = simulated_plan_table(plan)
    assert table is not None
    assert [row[0].text for row in table.rows] == [
        "p50",
        "p95",
        "p99",
        "beyond 600 ms",
        "CPU of web",
    ]
    assert "200" in table.rows[1][2].text
    assert simulated_plan_table(example_plan()) is None


def test_an_undecided_plan_has_no_price(tmp_path: Path) -> None:
    sure, unsure = example_plan(), {**example_plan(), "feasible": None}
    assert [costs(RunFolder(tmp_path, plan=plan))[1] for plan in (sure, unsure)] == [106.29, None]
