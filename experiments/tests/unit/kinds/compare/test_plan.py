"""The plan that a comparison is written with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.kinds.compare import analysis
from experiments.kinds.compare.cost import costs
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.plan import plan_words
from experiments.kinds.compare.terminal import _planned
from experiments.tests.report_fixture import example_plan
from optimizer.tests import synthetic


@pytest.mark.parametrize(
    ("day", "old"), [("2025-02-01", False), ("2031-02-01", True), (None, False)]
)
def test_its_prices_have_the_age_that_they_had_when_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: str | None, old: bool
) -> None:
    monkeypatch.setattr(analysis, "_FRONT_S", 0.1)
    folder = synthetic.write_run(tmp_path / "run", synthetic.Truth())
    manifest = json.loads((folder / "manifest.json").read_text())
    if day is not None:  # old manifests do not say it
        manifest["started_at"] = f"{day}T09:30:00+00:00"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    analysis.write_plan_files(folder, "")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["feasible"] is not None, plan
    assert any("days old" in text for text in plan["warnings"]) is old


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


def test_an_undecided_plan_has_no_price(tmp_path: Path) -> None:
    sure, unsure = example_plan(), {**example_plan(), "feasible": None}
    assert [costs(RunFolder(tmp_path, plan=plan))[1] for plan in (sure, unsure)] == [106.29, None]
