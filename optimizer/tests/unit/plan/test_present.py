"""The plan beside the fleet that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.overrides import Overrides, request_from_run
from optimizer.plan.planner import make_plan
from optimizer.tests.command_line import invoke
from optimizer.tests.one_tier import asked, late, planned

ABOVE = """
scheme = "cloud"
arrival_per_s = 20.0
[slo]
availability = 0.9
[limits]
max_nodes = 6
max_replicas = 1
[[tiers]]
name = "web"
role = "r"
processing_s = 0.03
memory_mb = 900
instance_types = ["c5.large"]
nic_mbps = 10.0
kbit_per_copy = 351.75
present = { instance_type = "c5.large", nodes = 1 }
"""


def _plan(**present: Any) -> Any:
    return planned({"availability": 0.999, "p99_ms": 200.0}, tier={"present": present})


def test_a_present_fleet_that_is_too_large_is_shrunk_and_the_saving_said() -> None:
    plan = _plan(instance_type="c5.xlarge", nodes=3)
    assert plan.present["keeps_all_limits"]
    assert plan.present["usd_per_month"] == pytest.approx(372.30)
    usd_more = round(plan.usd_per_month, 2) - plan.present["usd_per_month"]
    assert plan.present["usd_more"] == round(usd_more, 2)
    assert plan.present["tiers"]["web"]["usd_more"] == round(usd_more, 2)  # it is the only tier
    assert plan.present["tiers"]["web"]["changes"]


def test_the_plan_is_the_present_fleet_where_that_is_the_cheapest() -> None:
    plan = _plan(instance_type="c5.large", nodes=1)
    tier = plan.tiers["web"]
    repeated = _plan(instance_type=tier.instance_type, nodes=tier.nodes)
    assert repeated.present["usd_more"] == 0
    assert repeated.present["keeps_all_limits"]
    assert not repeated.present["tiers"]["web"]["changes"]


def test_a_present_fleet_that_is_too_small_is_said_to_break_what_it_breaks() -> None:
    plan = _plan(instance_type="t3.nano", nodes=1)
    assert "utilisation" in plan.present["breaks"]
    assert plan.present["usd_more"] > 0


def test_a_load_just_above_what_is_allowed_is_not_shown_as_what_is_allowed(tmp_path: Path) -> None:
    """20 requests/s of 351.75 kbit are 7.035 of 10 Mbit/s; 70 % are allowed."""
    file = tmp_path / "plan.toml"
    file.write_text(ABOVE)
    result = invoke("plan", "--input", str(file))
    assert result.exit_code == 0, result.output
    assert "does not keep utilisation" in " ".join(result.output.split())
    assert "load 70.4%" in " ".join(result.output.split())


def test_a_run_is_its_own_present_fleet(run_dir: Path) -> None:
    plan = make_plan(request_from_run(run_dir, Overrides(scheme="cloud"))).plan
    web = plan.present["tiers"]["web"]
    assert web["present"].startswith("4 ")
    assert plan.present["tiers"]["db"]["present"].startswith("3 ")
    assert plan.present["usd_more"] == pytest.approx(
        (plan.usd_per_month or 0.0) - plan.present["usd_per_month"], abs=0.02
    )


@pytest.mark.parametrize(
    ("present", "named"),
    [
        ({"instance_type": "c5.huge", "nodes": 1}, "c5.huge"),
        ({"instance_type": "c5.large", "nodes": 0}, "present.nodes"),
        ({"instance_type": "c5.large", "nodes": 2, "replicas": 3}, "present.replicas"),
    ],
)
def test_a_present_fleet_that_cannot_be_is_refused(present: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        _plan(**present)


def test_a_present_fleet_of_many_machines_is_counted_in_every_way_that_keeps_its_limits() -> None:
    """Fifteen of the twenty web machines have to count as needed: fewer are too slow."""
    web = {"name": "web", "role": "r", "processing_s": 0.065, "memory_mb": 100}
    store = {"name": "db", "role": "r", "processing_s": 1e-6, "memory_mb": 100}
    slice_1 = {"instance_type": "slice-1", "replicas": 1}
    plan = planned(
        {"availability": 0.999, "p95_ms": 270.0},
        scheme="on-prem",
        policy="round-robin",
        arrival_per_s=60.0,
        rates={"repair_s": 3600.0},
        limits={"max_nodes": 24, "max_replicas": 1},
        tiers=[
            {**web, "present": {**slice_1, "nodes": 20}},
            {**store, "present": {**slice_1, "nodes": 12}},
        ],
    )
    assert plan.present["breaks"] == []
    assert plan.present["keeps_all_limits"]
    assert plan.present["predicted"]["p95_ms"] <= 270.0


def test_a_present_fleet_that_was_not_decided_in_time_is_not_said_to_break_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present = {"instance_type": "c5.large", "nodes": 1}
    question = asked({"p99_ms": 145.0}, tier={"present": present})
    decided = make_plan(question).plan.present
    monkeypatch.setattr("optimizer.plan.solve.model.solve", late)  # of `attempt` alone
    undecided = make_plan(question).plan.present
    assert decided["breaks"] == undecided["breaks"] != []
    assert (decided["keeps_all_limits"], undecided["keeps_all_limits"]) == (False, None)
