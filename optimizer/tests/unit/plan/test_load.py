"""Load that a plan holds, and until when: against the same fleet asked again with that load."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.load import Load
from optimizer.plan.planner import make_plan
from optimizer.plan.solve.problem import violations
from optimizer.tests.one_tier import asked, planned

DAY = [0.7] * 8 + [1.0] * 8 + [1.6] * 4 + [1.0] * 4


@pytest.mark.parametrize(
    ("slo", "gives_way"), [({"p99_ms": 160.0}, "latency"), ({"availability": 0.9}, "utilisation")]
)
def test_a_plan_holds_up_to_the_load_that_is_said_and_not_beyond(
    slo: dict[str, Any], gives_way: str
) -> None:
    outcome = make_plan(asked(slo))
    assert outcome.plan.load["gives_way"] == gives_way
    factor = outcome.plan.load["holds_to_per_s"] / 20.0
    for times, expected in ((factor * 0.999, True), (factor * 1.003, False)):
        case = asked(slo, arrival_per_s=20.0 * times).case
        candidates = [
            option
            for option in case.problem().options[0]
            for chosen in outcome.solution.path
            if (option.instance.name, option.needed, option.nodes)
            == (chosen.instance.name, chosen.needed, chosen.nodes)
        ]
        assert (
            any(not violations(case.problem_with(()), (candidate,)) for candidate in candidates)
            == expected
        )


def test_the_plan_is_for_the_busiest_hour_in_the_last_month() -> None:
    load = {"day": DAY, "growth_per_month": 0.05, "months": 12}
    plan = planned({"availability": 0.99}, load=load)
    highest = 20.0 * 1.6 * 1.05**12
    assert plan.load["planned_per_s"] == pytest.approx(highest)
    constant = planned({"availability": 0.99}, arrival_per_s=highest)
    assert plan.usd_per_month == constant.usd_per_month
    held_per_s = plan.load["holds_to_per_s"]
    assert 20.0 * 1.6 * 1.05 ** plan.load["holds_months"] == pytest.approx(held_per_s)
    assert plan.load["holds_months"] > 12
    hours = plan.load["day"]
    assert [hour["per_s"] for hour in hours] == pytest.approx([20.0 * share for share in DAY])
    assert max(hour["utilisation"] for hour in hours) < 0.7


def test_a_demand_that_is_not_sure_is_planned_higher_with_a_confidence() -> None:
    slo = {"availability": 0.99, "confidence": 0.9}
    unsure = asked(slo, load={"spread": 0.2})
    sure = asked({"availability": 0.99})
    assert unsure.figures == ("arrival_per_s",)
    assert sure.case.tiers[0].request_per_s == pytest.approx(20.0)
    assert unsure.case.tiers[0].request_per_s == pytest.approx(20.0 * (1 + 0.2 * 1.2816), rel=1e-4)


@pytest.mark.parametrize(
    ("load", "named"),
    [
        ({"peak": 2.0, "day": DAY}, "one of peak, day and week"),
        ({"peak": 0.5}, "load.peak"),
        ({"day": DAY[1:]}, "load.day"),
        ({"day": [0.5] * 24}, "load.day: .* a mean of 0.5"),
        ({"day": [share * 120.0 for share in DAY]}, "load.day: .* a mean of 120"),
        ({"day": [share * 1.03 for share in DAY]}, "load.day: .* a mean of 1.03"),
        ({"months": 3}, "load.months"),
        ({"growth_per_month": 3.0}, "load.growth_per_month"),
    ],
)
def test_a_load_that_is_no_story_is_refused(load: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        asked({"availability": 0.99}, load=load)
    assert Load(day=[*DAY[:-1], 1.4]).highest == 1.6, "24.4 in all, in place of 24: rounded"


@pytest.mark.parametrize(
    ("slo", "spread", "named"),
    [({}, 0.2, r"load\.spread"), ({"confidence": 0.9}, 0.0, r"slo\.confidence")],
)
def test_a_spread_and_a_confidence_need_each_other(
    slo: dict[str, float], spread: float, named: str
) -> None:
    with pytest.raises(InputError, match=named):
        asked({"availability": 0.99, **slo}, load={"spread": spread})


def test_a_card_that_is_full_takes_machines_as_a_core_does() -> None:
    """20 requests/s of 640 kbit are 12.8 of 10 Mbit/s; their cores would fit into one machine."""
    present = {"instance_type": "c5.large", "nodes": 1}
    card = {"nic_mbps": 10.0, "kbit_per_copy": 640.0, "present": present}
    full, empty = (
        planned({"availability": 0.9}, tier=tier) for tier in (card, {"present": present})
    )
    assert [plan.tiers["web"].needed for plan in (full, empty)] == [2, 1]
    assert full.tiers["web"].utilisation == pytest.approx(0.64)
    assert full.load["gives_way"] == "utilisation"
    assert full.load["holds_to_per_s"] == pytest.approx(20.0 * 0.7 / 0.64)
    breaks = [plan.present["breaks"] for plan in (full, empty) if plan.present]
    assert breaks == [["utilisation"], []]
    assert any("640 kbit of 10 Mbit/s" in text for text in full.assumptions)
    assert any("cards are never full" in text for text in empty.assumptions)
