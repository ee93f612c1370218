"""Fail-overs and repairs that a run measured go into its plan, unless the run states them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from optimizer.fit import fit, read_results
from optimizer.fit.failovers import Failovers, failovers
from optimizer.plan.planner import plan_from_results

RECOVERIES_S, REPAIRS_S = [4.0, 5.0, 9.0], [60.0, 80.0, 70.0, 90.0]


def _line(what: str, kind: str, action: str = "end", **parameters: Any) -> dict[str, Any]:
    return {
        "time_s": 1.0, "what": what, "kind": kind, "action": action, "machine": "web-1",
        "parameters": parameters,
    }  # fmt: skip


def _with_failovers(run_dir: Path, folder: Path, rates: dict[str, float]) -> Path:
    """A copy of a run in which machines were replaced and repaired, and its [rates]."""
    shutil.copytree(run_dir, folder)
    lines = [_line("failover", "pf", recovery_s=s, total_s=s + 1.0) for s in RECOVERIES_S]
    lines += [_line("repair", "web", repair_s=s, to_pool=True) for s in REPAIRS_S]
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["spec"]["rates"] = rates
    path.write_text(json.dumps(manifest))
    return folder


def test_recoveries_and_repairs_are_told_apart() -> None:
    found = failovers([
        _line("failover", "pf", recovery_s=2.0, total_s=9.0),
        _line("failover", "cloud", recovery_s=3.0, total_s=3.0),
        _line("failover", "ara", recovery_s=30.0, total_s=31.0),
        _line("repair", "web", repair_s=20.0, to_pool=True),
        _line("repair", "web", repair_s=29.0, to_pool=False),
        _line("failover", "standby_pool_empty"),
        _line("failover", "pf", "error"),
    ])  # fmt: skip
    assert found == Failovers((2.0, 3.0), (30.0, 20.0))
    assert found.rates() == {}, "three samples are the least"
    assert "2 seen, 3 needed" in found.thin()[0]


def test_what_a_run_measured_becomes_the_plans_rates(run_dir: Path, tmp_path: Path) -> None:
    run = _with_failovers(run_dir, tmp_path / "run", {"crash_per_year": 2.0})
    service = fit(read_results(run))
    assert service.stated_rates["failover_s"] == {"samples": RECOVERIES_S}
    assert service.stated_rates["repair_s"] == {"samples": REPAIRS_S}
    plan = plan_from_results(run, {"availability": 0.999}, scheme="on-prem").to_json_dict()
    rates = plan["inputs"]["rates"]
    # The mean of an exponential after n samples is their sum over n - 1.
    assert rates["failover_s"] == pytest.approx(sum(RECOVERIES_S) / 2)
    assert rates["repair_s"] == pytest.approx(sum(REPAIRS_S) / 3)
    assert "failover_s: 3 samples, mean 6 s" in plan["assumptions"]
    assert any(line.startswith("repair_s: 4 samples, mean 75 s") for line in plan["assumptions"])


def test_what_a_run_states_goes_before_what_it_measured(run_dir: Path, tmp_path: Path) -> None:
    stated = {"crash_per_year": 2.0, "failover_s": 15.0, "repair_s": 86400.0}
    run = _with_failovers(run_dir, tmp_path / "run", stated)
    assert dict(fit(read_results(run)).stated_rates) == stated
