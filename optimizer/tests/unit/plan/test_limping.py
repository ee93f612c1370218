"""Capacity of a limping machine may be a run's of kind limplock, in place of a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.inputs.request import PlanRequest, request_from_plan_file

TEXT = """
scheme = "on-prem"
arrival_per_s = 20.0
[slo]
availability = 0.999
[limits]
max_nodes = 6
max_replicas = 1
[rates]
limp_per_year = 50.0
limp_recovery_s = 36000.0
{rates}
{more}
[[tiers]]
name = "web"
role = "r"
processing_s = 0.03
memory_mb = 900
"""
SLOW = {"factor": 2.0, "at_least": False, "low": 1.6, "high": 2.5}
CUT = {"factor": 4.5, "at_least": True, "low": 3.5, "high": None}


def scenario(arm: str, name: str, slowdown: dict[str, Any] | None) -> dict[str, Any]:
    return {"row": "Z3", "part": "leader", "scenario": name, "arm": arm, "slowdown": slowdown,
            "repeats": 3, "operation": "insufficient" if slowdown is None else "yes",
            "reason": "too few repeats for 0.95" if slowdown is None else ""}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    body = {
        "experiment": "limping", "run": "20261124T000000Z", "valid": True,
        "limplock": {"rule": {"confidence": 0.95}, "scenarios": [
            scenario("new", "10", SLOW), scenario("new", "1000", CUT), scenario("new", "5", None),
            scenario("hedged", "10", {**SLOW, "factor": 1.2, "low": 1.1, "high": 1.25}),
        ]},
    }  # fmt: skip
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(json.dumps(body))
    return tmp_path


def asked(folder: Path, rates: str = "", more: str = "") -> PlanRequest:
    path = folder / "plan.toml"
    path.write_text(TEXT.format(rates=rates, more=more))
    return request_from_plan_file(read_plan(path))


def _limp_capacity(question: PlanRequest) -> float:
    return question.case.rates.limp_capacity


def from_run(scenario: str, arm: str = "new", row: str = "Z3", run: str = "run") -> str:
    return f'{{ run = "{run}", row = "{row}", scenario = "{scenario}", arm = "{arm}" }}'


def test_the_upper_end_of_a_slowdown_is_the_share_that_is_left(folder: Path) -> None:
    measured = asked(folder, f"limp_capacity = {from_run('10')}")
    assert _limp_capacity(measured) == pytest.approx(0.4)
    [remark] = [text for text in measured.remarks if "limping" in text]
    assert "0.4 of one" in remark
    assert "1.6 to 2.5" in remark
    assert "20261124T000000Z" in remark
    cut = asked(folder, f"limp_capacity = {from_run('1000')}")
    assert _limp_capacity(cut) == 0.0, "waits were cut short"
    assert any("nothing" in text for text in cut.remarks)


def test_a_remedy_is_an_arm_of_the_run(folder: Path) -> None:
    tables = f"""[[remedies]]
name = "hedged"
usd_per_month = 1.0
limp_capacity = {from_run("10", arm="hedged")}
"""
    question = asked(folder, f"limp_capacity = {from_run('10')}", tables)
    [remedy] = question.case.remedies
    assert remedy.limp_capacity == pytest.approx(0.8)
    assert any(text.startswith("remedy hedged") for text in question.remarks)


@pytest.mark.parametrize(
    ("rates", "named"),
    [
        (from_run("10", run="elsewhere"), "kind limplock"),
        (from_run("10", row="Z9"), r"one of the rows Z3 \(got none of them"),
        (from_run("7"), "scenario 10, arm new.*none of them"),
        ('{ run = "run", row = "Z3", scenario = "10" }', "2 of them"),
        (from_run("5"), "3 repeats, insufficient: too few"),
        ('{ run = "run", row = "Z3" }', "scenario"),
        ('{ run = "run", row = "Z3", scenario = "10", machine = "a" }', "unknown key machine"),
    ],
)
def test_a_run_that_does_not_say_it_is_refused_at_its_line(
    folder: Path, rates: str, named: str
) -> None:
    with pytest.raises(InputError, match=named) as error:
        asked(folder, f"limp_capacity = {rates}")
    assert "limp_capacity" in error.value.place
    assert "plan.toml:12" in error.value.place


def test_a_run_that_is_not_valid_says_nothing(folder: Path) -> None:
    path = folder / "run" / "result.json"
    path.write_text(path.read_text().replace('"valid": true', '"valid": false'))
    with pytest.raises(InputError, match="a valid run"):
        asked(folder, f"limp_capacity = {from_run('10')}")


def test_a_speed_that_no_bound_tells_is_refused(folder: Path) -> None:
    tables = f"""[[remedies]]
name = "hedged"
usd_per_month = 1.0
limp_speed = {from_run("1000")}
"""
    with pytest.raises(InputError, match="upper bound") as error:
        asked(folder, "", tables)
    assert "remedies.0.limp_speed" in error.value.place
