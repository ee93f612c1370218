"""The plan that a comparison is written with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.kinds.compare import analysis
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
    analysis.write_plan_files(folder)
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["feasible"] is not None, plan
    assert any("days old" in text for text in plan["warnings"]) is old
