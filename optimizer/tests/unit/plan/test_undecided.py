"""A plan is undecided where its run does not count, or says too little to deny every fleet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from optimizer.plan import Limits, plan_from_results
from optimizer.tests.command_line import invoke
from optimizer.tests.synthetic import Truth, write_run

SLO = {"availability": 0.999, "p95_ms": 400.0, "p99_ms": 700.0}
DISTURBED: dict[str, Any] = {
    "valid": False, "disturbed": {"blocks": 6, "of": 8},
    "verdicts": {"measurement": {"ok": False, "disturbed": True, "reasons": ["others took 74 %"]}},
}  # fmt: skip
LATE: dict[str, Any] = {
    "valid": False, "verdicts": {"measurement": {"ok": False, "reasons": ["sent late"]}}
}  # fmt: skip


@pytest.fixture
def run(run_dir: Path, tmp_path: Path) -> Path:
    shutil.copytree(run_dir, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("head", "reason"), [(DISTURBED, "others took 74 %"), (LATE, "measurement: sent late")]
)
def test_a_plan_from_a_run_that_is_not_valid_is_undecided(
    run: Path, head: dict[str, Any], reason: str
) -> None:
    (run / "result.json").write_text(json.dumps(head))
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    assert reason in plan.reasons[0]
    assert plan.tiers  # what it would be is there to look at
    assert plan.to_tfvars() == ""


def test_the_command_says_so_first_and_fails(run: Path, tmp_path: Path) -> None:
    (run / "result.json").write_text(json.dumps(DISTURBED))
    tfvars = tmp_path / "fleet.tfvars"
    done = invoke("plan", "--from", str(run), "--tfvars", str(tfvars))
    assert done.exit_code == 1, done.output
    assert done.stdout.index("undecided") < done.stdout.index("USD a month")
    assert "others took 74 %" in done.stdout
    assert not tfvars.exists()


def test_a_result_that_says_valid_goes_before_the_runner_s_own_verdicts(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["verdicts"] = {"injection": {"ok": False, "reasons": ["none"]}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert plan_from_results(run, SLO).feasible is None
    (run / "result.json").write_text(json.dumps({"valid": True}))
    assert plan_from_results(run, SLO).feasible is True


def test_a_tier_without_an_arbiter_is_named_with_what_to_do(run: Path) -> None:
    table = pl.read_parquet(run / "arbiters.parquet").filter(pl.col("tier") != "db")
    table.write_parquet(run / "arbiters.parquet")
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    (missing,) = plan.insufficient[:1]
    assert "tier db has no arbiter" in missing
    assert missing in plan.reasons[0]
    assert len(plan.reasons) == 1  # measuring for longer would not help


def test_thin_evidence_says_what_is_thin_and_that_more_of_it_helps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Truth(block_s=8.0, pages_per_s=4.0))
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    assert "needed" in plan.insufficient[0]
    assert plan.insufficient[0] in plan.reasons[0]
    assert "[design]" in plan.reasons[1]


def test_a_percentile_of_few_samples_denies_no_fleet(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Truth(block_s=40.0))  # about 840 requests per arm
    plan = plan_from_results(run, {"p99_ms": 150.0}, limits=Limits(max_nodes=4))
    assert plan.feasible is None, plan.reasons
    assert "p99 from" in plan.reasons[0]


def test_a_limit_with_samples_enough_is_denied(run_dir: Path) -> None:
    plan = plan_from_results(run_dir, {"p95_ms": 120.0}, limits=Limits(max_nodes=4))
    assert plan.feasible is False
