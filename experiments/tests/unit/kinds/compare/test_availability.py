"""The availability that the plan's model gives the measured fleet, beside the measured SLO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.kinds.compare import analysis
from experiments.kinds.compare.availability import missed_words, modelled
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.verdict import slo_table, verdict
from optimizer.tests import synthetic


def plan(breaks: list[str], keeps: bool | None, **more: Any) -> dict[str, Any]:
    present = {"keeps_all_limits": keeps, "breaks": breaks, "predicted": {"availability": 0.99723}}
    asked = {"slo": {"availability": 0.999}}
    return {"feasible": True, "present": present, "inputs": asked, **more}


@pytest.mark.parametrize(
    ("made", "met"),
    [
        (plan(["availability"], False), False),
        (plan(["utilisation"], False), True),
        (plan([], True), True),
        (plan(["availability"], None), None),
    ],
)
def test_the_present_fleet_s_availability_is_kept_broken_or_undecided(
    made: dict[str, Any], met: bool | None
) -> None:
    found = modelled(made)
    assert found == {"asked": 0.999, "predicted": 0.99723, "met": met}
    assert bool(missed_words({"met": True, "availability": found})) is (met is False)


@pytest.mark.parametrize(
    "made",
    [
        {},
        plan([], True, present=None),
        plan(["availability"], False, feasible=None),
        plan(["availability"], False, inputs={"slo": {"availability": None}}),
    ],
)
def test_a_plan_that_does_not_say_gives_no_availability(made: dict[str, Any]) -> None:
    assert modelled(made) is None
    assert missed_words({"met": True, "availability": None}) == ""
    assert missed_words(None) == ""


def test_a_fleet_that_met_what_was_measured_is_not_said_to_keep_its_availability() -> None:
    arms = {"only": {"met": True, "limits": {"p95_ms": True}, "reasons": []}}
    asked = {"p95_ms": 500.0, "availability": 0.999}
    slo = {"asked": asked, "met": True, "arms": arms, "availability": None}
    run = RunFolder(Path("nowhere"), summary={"valid": True, "slo": slo}, arms=["only"])
    before, table_before = verdict(run), slo_table(run)
    slo["availability"] = modelled(plan(["availability"], False))
    table = slo_table(run)
    assert table is not None
    assert table_before is not None
    for text, without in ((verdict(run), before), (table.caption, table_before.caption)):
        assert "99.723 %" in text
        assert "99.723 %" not in without


def test_a_result_has_the_measured_and_the_modelled_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "_FRONT_S", 0.1)
    monkeypatch.setattr(analysis, "against", lambda _: "")  # the made-up run has no verdicts
    folder = synthetic.write_run(tmp_path / "run", synthetic.Truth())
    found = analysis.analyse(folder)
    made = json.loads((folder / "plan.json").read_text())
    assert made["present"] is not None
    assert found.slo is not None
    assert found.slo["availability"] == modelled(made)
    assert found.slo["availability"]["asked"] == synthetic.Truth().slo["availability"]
