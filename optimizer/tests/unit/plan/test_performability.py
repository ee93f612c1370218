"""Bounds on users' losses in a year of faults, as a run measured them, for a tier's machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.tests.one_tier import planned

YEAR = {"goodput": 0.9996, "lost": 0.0003, "demerits": 0.02, "demerits_added": 0.01}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write_run(tmp_path, {"arms": {"ha": YEAR}, "machines": {"process.crash on web-3": 4}})
    return tmp_path


def _write_run(folder: Path, year: dict[str, Any] | None, valid: bool = True) -> None:
    body = {"run": "20261124T000000Z", "valid": valid, "performability": {"year": year}}
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "result.json").write_text(json.dumps(body))


def _planned(folder: Path, load: float = 60.0, **promised: Any) -> Any:
    """Plan one tier with these limits of performability, from the run in the folder."""
    promise = {"run": "run", "arm": "ha", "tier": "web", **promised}
    return planned(
        {"availability": 0.999, **({"performability": promise} if promised else {})},
        scheme="on-prem",
        arrival_per_s=load,
        limits={"max_nodes": 12, "max_replicas": 1},
        rates={"repair_s": 86_400.0},
        tier={"instance_types": ["slice-1"]},
        folder=folder,
    )


def _machines(plan: Any) -> int:
    return sum(tier.nodes + tier.spares for tier in plan.tiers.values())


def test_a_goodput_bounds_the_machines_that_may_fail(folder: Path) -> None:
    # 4 (1 + (0.9996 - 0.9993) / 0.0003) = 8 machines take no more than is left
    plan = _planned(folder, goodput=0.9993)
    year = plan.predicted["performability"]
    assert (year["machines_max"], year["machines"]) == (8, _machines(plan))
    assert year["goodput"] >= 0.9993
    assert year["demerits_per_request"] >= YEAR["demerits"]


def test_the_tighter_of_two_limits_counts(folder: Path) -> None:
    # 4 (1 + 0.005 / 0.01) = 6
    plan = _planned(folder, goodput=0.9993, demerits_per_request=0.025)
    assert plan.predicted["performability"]["machines_max"] == 6


def test_a_goodput_that_nobody_asks_for_bounds_nothing(folder: Path) -> None:
    """0.9996 - 0.9 (m / 4 - 1) is below 0 for the ten machines and more that the load needs."""
    year = YEAR | {"lost": 0.9, "demerits_added": 0.0}
    _write_run(folder, {"arms": {"ha": year}, "machines": {"process.crash on web-3": 4}})
    plan = _planned(folder, load=230.0, demerits_per_request=0.1)
    assert plan.feasible
    predicted = plan.predicted["performability"]
    assert predicted["machines"] >= 10
    assert (predicted["machines_max"], predicted["goodput"]) == (None, 0.0)


def test_a_load_that_needs_more_machines_than_may_fail_has_no_plan_and_one_without_the_limit_has(
    folder: Path,
) -> None:
    unlimited = _planned(folder, load=130.0)
    assert unlimited.feasible
    machines_max = _machines(unlimited) - 1
    goodput = YEAR["goodput"] - YEAR["lost"] * (machines_max / 4 - 1)
    plan = _planned(folder, load=130.0, goodput=round(goodput, 9))
    assert not plan.feasible
    assert any(reason.startswith("performability:") for reason in plan.reasons)


@pytest.mark.parametrize(
    ("promised", "key"),
    [
        ({"arm": "ha"}, "slo.performability"),
        ({"goodput": 0.9999}, "slo.performability"),
        ({"demerits_per_request": 0.01}, "slo.performability"),
        ({"goodput": 0.999, "arm": "perf"}, "slo.performability"),
        ({"goodput": 0.999, "tier": "db"}, "slo.performability.tier"),
        ({"goodput": 0.999, "run": "none"}, "slo.performability"),
    ],
)
def test_a_promise_that_no_run_bears_out_is_refused(
    folder: Path, promised: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as error:
        _planned(folder, **promised)
    assert key in error.value.place


@pytest.mark.parametrize(
    ("year", "valid"),
    [(None, True), ({"arms": {"ha": YEAR}, "machines": {"f": 4}}, False)],
    ids=["no year", "not valid"],
)
def test_a_run_without_a_year_or_that_is_not_valid_is_refused(
    folder: Path, year: dict[str, Any] | None, valid: bool
) -> None:
    _write_run(folder, year, valid)
    with pytest.raises(InputError) as error:
        _planned(folder, goodput=0.999)
    assert "slo.performability" in error.value.place
