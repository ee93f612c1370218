"""Remedies against limping: each planned with by itself, and compared with the plan's machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import InputError
from optimizer.plan.explain.reasons import Wanted
from optimizer.plan.planner import answer, explained_plan
from optimizer.tests.command_line import output_of
from optimizer.tests.one_tier import asked

# a twentieth of the time a machine does nothing, so that one alone is not available enough
RATES = {"crash_per_year": 1.0, "limp_per_year": 50.0, "limp_recovery_s": 36_000.0}
SLO = {"availability": 0.999}
ENDLESS = Wanted(seconds=1e9, clock=lambda: 0.0)


def _limping(remedies: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    stated = {"slo": SLO, "rates": RATES, **values}
    _, body = explained_plan(asked(**stated, remedies=remedies), ENDLESS)
    found: dict[str, Any] = body["limping"]
    return found


def _usd(rates: dict[str, float], slo: dict[str, Any] = SLO) -> float | None:
    return answer(asked(slo, rates=rates)).plan.usd_per_month


def test_each_row_is_the_plan_that_the_remedys_figures_give() -> None:
    changes = [{"limp_recovery_s": 60.0}, {"limp_capacity": 0.9}, {"limp_per_year": 1.0}]
    found = _limping([{"name": f"{n}", "usd_per_month": 7.0, **c} for n, c in enumerate(changes)])[
        "remedies"
    ]
    assert len(found) == len(changes)
    for row in found:
        fleet = _usd({**RATES, **changes[int(row["name"])]})
        assert fleet is not None
        assert row["usd_fleet"] == round(fleet, 2)
        assert row["usd_per_month"] == round(fleet + 7.0, 2)
    totals = [row["usd_per_month"] for row in found]
    assert totals == sorted(totals)


def test_limping_costs_what_the_plan_has_beyond_a_fleet_in_which_nothing_limps() -> None:
    found = _limping([{"name": "a", "usd_per_month": 1.0, "limp_per_year": 0.0}])
    plan, plain = _usd(RATES), _usd({"crash_per_year": 1.0})
    assert plan is not None
    assert plain is not None
    assert found["usd_more"] == round(plan - plain, 2) > 0
    assert found["without_limping"]["usd_per_month"] == round(plain, 2)
    assert found["bought"]["web"]["nodes"] > 0


@pytest.mark.parametrize(("below", "cheapest"), [(1.0, "cure"), (-1.0, None)])
def test_a_remedy_wins_exactly_up_to_what_limping_costs(below: float, cheapest: str | None) -> None:
    plan, plain = _usd(RATES), _usd({"crash_per_year": 1.0})
    assert plan is not None
    assert plain is not None
    price = plan - plain - below
    found = _limping([{"name": "cure", "usd_per_month": price, "limp_per_year": 0.0}])
    assert found["cheapest"] == cheapest


def test_a_remedy_may_make_feasible_what_no_machines_do() -> None:
    hopeless = {**RATES, "limp_recovery_s": 1e6}
    assert _usd(hopeless) is None
    remedies = [
        {"name": "too little", "usd_per_month": 1.0, "limp_recovery_s": 9e5},
        {"name": "enough", "usd_per_month": 900.0, "limp_recovery_s": 600.0},
    ]
    found = _limping(remedies, rates=hopeless)
    assert found["cheapest"] == "enough"
    assert found["usd_more"] is None
    assert found["bought"] == {}
    assert [row["usd_per_month"] is None for row in found["remedies"]] == [False, True]


def test_a_remedy_of_the_speed_while_limping_counts_for_the_degraded_limits() -> None:
    def slo(speed: float) -> dict[str, Any]:
        return {"p99_ms": 200.0, "degraded": {"limping": 1, "limp_speed": speed}}

    remedy = {"name": "hedged", "usd_per_month": 3.0, "limp_speed": 0.9}
    found = _limping([remedy], slo=slo(0.5), rates={})
    slow, fast = (_usd({}, slo(speed)) for speed in (0.5, 0.9))
    assert slow is not None
    assert fast is not None
    assert found["remedies"][0]["usd_per_month"] == round(fast + 3.0, 2)
    assert found["usd_more"] == round(slow - (_usd({}, {"p99_ms": 200.0}) or 0.0), 2)


def test_without_remedies_a_plan_says_nothing_of_them() -> None:
    _, body = explained_plan(asked(SLO, rates=RATES), ENDLESS)
    assert "limping" not in body


@pytest.mark.parametrize(
    ("remedy", "rates", "named"),
    [
        ({}, RATES, r"remedies\.0.*limp_per_year"),
        ({"limp_recovery_s": 0.0}, RATES, r"remedies\.0\.limp_recovery_s"),
        ({"limp_capacity": 1.5}, RATES, r"remedies\.0\.limp_capacity"),
        ({"limp_per_year": -1.0}, RATES, r"remedies\.0\.limp_per_year"),
        ({"limp_recovery_s": 60.0, "usd_per_month": -1.0}, RATES, r"remedies\.0\.usd_per_month"),
        ({"limp_recovery_s": 60.0, "key": 1}, RATES, "unknown key"),
        ({"limp_recovery_s": 60.0}, {}, r"remedies\.0\.limp_recovery_s.*limp_per_year"),
        ({"limp_speed": 0.5}, RATES, r"remedies\.0\.limp_speed.*degraded"),
    ],
)
def test_a_remedy_that_cannot_be_or_changes_nothing_is_refused(
    remedy: dict[str, Any], rates: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        asked(SLO, rates=rates, remedies=[{"name": "a", "usd_per_month": 1.0, **remedy}])


def test_two_remedies_of_one_name_are_refused() -> None:
    one = {"name": "a", "usd_per_month": 1.0, "limp_recovery_s": 60.0}
    with pytest.raises(InputError, match=r"remedies\.1\.name"):
        asked(SLO, rates=RATES, remedies=[one, one])


def test_the_command_prints_the_remedies_beside_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'scheme = "cloud"\narrival_per_s = 20.0\n[slo]\navailability = 0.999\n'
        "[rates]\nlimp_per_year = 50.0\nlimp_recovery_s = 36000.0\n"
        '[[remedies]]\nname = "found sooner"\nusd_per_month = 5.0\nlimp_recovery_s = 60.0\n'
        '[[tiers]]\nname = "web"\nrole = "r"\nprocessing_s = 0.03\nmemory_mb = 900\n'
        'instance_types = ["c5.large"]\n'
    )
    printed = output_of("plan", "--input", str(path))
    assert "Cheapest: found sooner." in printed
    assert "Because machines limp, web has: +" in printed
    assert "if none limped" in printed
