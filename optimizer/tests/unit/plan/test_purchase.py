"""Ways to pay: the planner weighs a discount against what comes with it."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InputError
from optimizer.availability import FailureRates, availability
from optimizer.tests.one_tier import asked, planned

RESERVED = {"name": "reserved", "discount": 0.4, "committed": True}
SPOT = {"name": "spot", "discount": 0.7, "interruptions_per_year": 50.0}


def _plan(slo: dict[str, Any], *ways: dict[str, Any]) -> Any:
    return planned(slo, prices={"purchase": list(ways)})


def test_a_reserved_machine_is_the_same_machine_for_less() -> None:
    slo = {"availability": 0.9999}
    dear, cheap = _plan(slo), _plan(slo, RESERVED)
    assert cheap.usd_per_month == pytest.approx(0.6 * dear.usd_per_month)
    assert cheap.tiers["web"].purchase == "reserved"
    assert cheap.tiers["web"].instance_type == dear.tiers["web"].instance_type
    assert cheap.tiers["web"].nodes == dear.tiers["web"].nodes
    assert dear.tiers["web"].purchase == "on-demand"


def test_spot_machines_are_taken_where_they_keep_the_target_with_their_interruptions() -> None:
    plan = _plan({"availability": 0.999999}, SPOT)
    web = plan.tiers["web"]
    assert web.purchase == "spot"
    prediction = availability(
        web.needed, web.nodes - web.needed, FailureRates(51.0), mechanism="ara", scheme="cloud"
    )
    assert web.availability == pytest.approx(1.0 - prediction.unavailability_most, abs=1e-15)
    assert prediction.keeps(0.999999)
    assert any("taken away" in text for text in plan.assumptions)


def test_a_machine_that_is_taken_away_all_the_time_is_not_worth_its_discount() -> None:
    often = {**SPOT, "discount": 0.05, "interruptions_per_year": 3000.0}
    assert _plan({"availability": 0.9999}, often).tiers["web"].purchase == "on-demand"


@pytest.mark.parametrize(
    ("ways", "named"),
    [
        (({**SPOT, "discount": 1.2},), "discount"),
        (({**SPOT, "committed": True},), "committed or interrupted"),
        (({**SPOT, "name": "on-demand"},), "on-demand"),
        ((SPOT, SPOT), "names of their own"),
        (({**SPOT, "instance_types": ["c5.huge"]},), "c5.huge"),
    ],
)
def test_a_way_to_pay_that_cannot_be_is_refused(ways: tuple[Any, ...], named: str) -> None:
    with pytest.raises(InputError, match=named):
        _plan({"availability": 0.99}, *ways)


def test_owned_machines_are_not_bought_in_other_ways() -> None:
    with pytest.raises(InputError, match="rented machines"):
        asked({"availability": 0.99}, tier={"instance_types": ["slice-1"]}, scheme="on-prem",
              prices={"purchase": [SPOT]})  # fmt: skip


ARM = {"instance_types": ["c5.large", "c6g.large"], "arch": ["x86_64", "arm64"]}


def test_cores_of_another_architecture_are_taken_where_their_speed_is_worth_their_price() -> None:
    def plan(per_core: float) -> Any:
        speed = {"instance_types": ["c6g.large"], "per_core": per_core, "source": "two runs"}
        fleet_plan = planned(
            {"availability": 0.99}, tier=ARM, arrival_per_s=100.0, prices={"speeds": [speed]}
        )
        return fleet_plan.tiers["web"]

    # 100 requests a second of 30 ms: 3 cores, at 70 % of 2 per machine 3 machines of c5.large
    assert (plan(1.0).instance_type, plan(1.0).nodes) == ("c6g.large", 3)
    assert (plan(0.8).instance_type, plan(0.8).nodes) == ("c6g.large", 3)
    assert (plan(0.5).instance_type, plan(0.5).nodes) == ("c5.large", 3)
    assert (plan(1.6).instance_type, plan(1.6).nodes) == ("c6g.large", 2)


def test_software_that_is_built_for_x86_runs_on_no_arm_machine() -> None:
    plan = planned({"availability": 0.99}, tier={"instance_types": None})
    assert not plan.tiers["web"].instance_type.startswith(("c6g", "m6g", "r6g"))
    with pytest.raises(InputError, match=r"c6g\.large, arm64"):
        asked({"availability": 0.99}, tier={"instance_types": ["c6g.large"]})


@pytest.mark.parametrize(
    ("speeds", "slo", "named"),
    [
        ([{"instance_types": ["c6g.huge"], "per_core": 1.1, "source": "x"}], {}, "c6g.huge"),
        ([{"instance_types": ["c6g.large"], "per_core": 0.0, "source": "x"}], {}, "per_core"),
        (2 * [{"instance_types": ["c6g.large"], "per_core": 1.1, "source": "x"}], {}, "again"),
        ([{"instance_types": ["c6g.large"], "per_core": 1.1, "source": "x"}], {"p95_ms": 500.0},
         "no latency limits beside it"),
    ],
)  # fmt: skip
def test_a_speed_that_cannot_be_is_refused(
    speeds: list[dict[str, Any]], slo: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        asked({"availability": 0.99, **slo}, tier=ARM, prices={"speeds": speeds})
