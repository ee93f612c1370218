"""Bounds on users' losses in a year of faults, as a run measured them, for a tier's machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.inputs.request import request_from_plan_file
from optimizer.plan.planner import make_plan

TEXT = """
scheme = "on-prem"
arrival_per_s = {load}
[slo]
availability = 0.999
{promised}
[limits]
max_nodes = 12
max_replicas = 1
[rates]
repair_s = 86400.0
[[tiers]]
name = "web"
role = "r"
processing_s = 0.03
memory_mb = 900
instance_types = ["slice-1"]
"""
YEAR = {"goodput": 0.9996, "lost": 0.0003, "demerits": 0.02, "demerits_added": 0.01}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write_run(tmp_path, {"arms": {"ha": YEAR}, "machines": {"process.crash on web-3": 4}})
    return tmp_path


def _write_run(folder: Path, year: dict[str, Any] | None, valid: bool = True) -> None:
    body = {"run": "20261124T000000Z", "valid": valid, "performability": {"year": year}}
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "result.json").write_text(json.dumps(body))


def _promised(limits: str, arm: str = "ha", tier: str = "web") -> str:
    head = f'[slo.performability]\nrun = "run"\narm = "{arm}"\ntier = "{tier}"\n'
    return head + limits


def _planned(folder: Path, promised: str = "", load: float = 60.0) -> Any:
    path = folder / "plan.toml"
    path.write_text(TEXT.format(promised=promised, load=load))
    return make_plan(request_from_plan_file(read_plan(path))).plan


def _machines(found: Any) -> int:
    return sum(tier.nodes + tier.spares for tier in found.tiers.values())


def test_a_goodput_bounds_the_machines_that_may_fail(folder: Path) -> None:
    # 4 (1 + (0.9996 - 0.9993) / 0.0003) = 8 machines take no more than is left
    found = _planned(folder, _promised("goodput = 0.9993"))
    year = found.predicted["performability"]
    assert (year["machines_max"], year["machines"]) == (8, _machines(found))
    assert year["goodput"] >= 0.9993
    assert year["demerits_per_request"] >= YEAR["demerits"]


def test_the_tighter_of_two_limits_counts(folder: Path) -> None:
    both = "goodput = 0.9993\ndemerits_per_request = 0.025"  # 4 (1 + 0.005 / 0.01) = 6
    found = _planned(folder, _promised(both))
    assert found.predicted["performability"]["machines_max"] == 6


def test_a_goodput_that_nobody_asks_for_bounds_nothing(folder: Path) -> None:
    """0.9996 - 0.9 (m / 4 - 1) is below 0 for the ten machines and more that the load needs."""
    year = YEAR | {"lost": 0.9, "demerits_added": 0.0}
    _write_run(folder, {"arms": {"ha": year}, "machines": {"process.crash on web-3": 4}})
    found = _planned(folder, _promised("demerits_per_request = 0.1"), load=230.0)
    assert found.feasible
    promised = found.predicted["performability"]
    assert promised["machines"] >= 10
    assert (promised["machines_max"], promised["goodput"]) == (None, 0.0)


def test_a_load_that_needs_more_machines_than_may_fail_has_no_plan_and_one_without_the_limit_has(
    folder: Path,
) -> None:
    free = _planned(folder, load=130.0)
    assert free.feasible
    most = _machines(free) - 1
    goodput = YEAR["goodput"] - YEAR["lost"] * (most / 4 - 1)
    found = _planned(folder, _promised(f"goodput = {goodput:.9f}"), load=130.0)
    assert not found.feasible
    assert any(reason.startswith("performability:") for reason in found.reasons)


@pytest.mark.parametrize(
    ("promised", "key"),
    [
        (_promised(""), "slo.performability"),
        (_promised("goodput = 0.9999"), "slo.performability"),
        (_promised("demerits_per_request = 0.01"), "slo.performability"),
        (_promised("goodput = 0.999", arm="perf"), "slo.performability"),
        (_promised("goodput = 0.999", tier="db"), "slo.performability.tier"),
        (_promised("goodput = 0.999").replace('"run"', '"none"'), "slo.performability"),
    ],
)
def test_a_promise_that_no_run_bears_out_is_refused(folder: Path, promised: str, key: str) -> None:
    with pytest.raises(InputError) as refused:
        _planned(folder, promised)
    assert key in refused.value.place


@pytest.mark.parametrize(
    ("year", "valid"),
    [(None, True), ({"arms": {"ha": YEAR}, "machines": {"f": 4}}, False)],
    ids=["no year", "not valid"],
)
def test_a_run_without_a_year_or_that_is_not_valid_is_refused(
    folder: Path, year: dict[str, Any] | None, valid: bool
) -> None:
    _write_run(folder, year, valid)
    with pytest.raises(InputError) as refused:
        _planned(folder, _promised("goodput = 0.999"))
    assert "slo.performability" in refused.value.place
