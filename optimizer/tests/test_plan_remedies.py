"""Ways out of limping, remedies, spares, copies: each planned with by itself, and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import InputError, PlannerError
from optimizer.plan.ask.case import Case
from optimizer.plan.explain.alone import fewest_copies, replication_alone, spares_alone
from optimizer.plan.explain.reasons import Wanted
from optimizer.plan.planner import answer, explained_plan
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.problem import Problem, violations
from optimizer.tests.command_line import output_of
from optimizer.tests.one_tier import asked
from optimizer.tests.small_problems import latency, option

# a twentieth of the time a machine does nothing, so that one alone is not available enough
RATES = {"crash_per_year": 1.0, "limp_per_year": 50.0, "limp_recovery_s": 36_000.0}
SLO = {"availability": 0.999}
COPIES = {"max_nodes": 8, "max_replicas": 3}
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
    assert found["cheapest"]["name"] == cheapest
    assert found["cheapest"]["way"] == ("remedy" if cheapest else "spares")


def test_a_remedy_may_make_feasible_what_no_machines_do() -> None:
    hopeless = {**RATES, "limp_recovery_s": 1e6}
    assert _usd(hopeless) is None
    remedies = [
        {"name": "too little", "usd_per_month": 1.0, "limp_recovery_s": 9e5},
        {"name": "enough", "usd_per_month": 900.0, "limp_recovery_s": 600.0},
    ]
    found = _limping(remedies, rates=hopeless)
    assert found["cheapest"]["name"] == "enough"
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


def test_a_plan_says_nothing_of_limping_that_it_does_not_know_of() -> None:
    _, body = explained_plan(asked(SLO, rates={"crash_per_year": 1.0}), ENDLESS)
    assert "limping" not in body


def _slow_page(p99_ms: float, speed: float) -> dict[str, Any]:
    slo = {"p99_ms": p99_ms, "degraded": {"limping": 1, "limp_speed": speed}}
    return _limping([], slo=slo, rates={}, limits=COPIES)


@pytest.mark.parametrize(("p99_ms", "speed"), [(200.0, 0.1), (300.0, 0.1), (300.0, 0.5)])
def test_spares_and_copies_cost_what_all_such_fleets_bought_one_by_one_do(
    p99_ms: float, speed: float
) -> None:
    slo = {"p99_ms": p99_ms, "degraded": {"limping": 1, "limp_speed": speed}}
    problem = answer(asked(slo, limits=COPIES)).problem
    plain = answer(asked({"p99_ms": p99_ms}, limits=COPIES)).found
    assert problem is not None
    assert plain is not None
    assert plain.path is not None
    [old] = plain.path
    assert old.replicas == 1  # so that which of equal fleets is taken does not matter
    spares, copies = [], []
    for one in problem.options[0]:
        if one.instance.name != old.instance.name or violations(problem, (one,)):
            continue
        if one.replicas == 1:
            spares.append(one.usd_per_month)
        for_load = min(max(one.needed - old.needed, 0), (one.replicas - 1) * old.needed)
        if one.needed + one.extra - for_load <= old.needed + old.extra:
            copies.append(one.usd_per_month)
    found = _slow_page(p99_ms, speed)
    assert found["spares"]["usd_per_month"] == pytest.approx(min(spares), abs=0.01)
    assert found["replication"]["usd_per_month"] == pytest.approx(min(copies), abs=0.01)


def test_copies_answer_a_slow_page_more_cheaply_than_spares_do() -> None:
    found = _slow_page(200.0, 0.1)
    assert found["spares"]["usd_per_month"] > found["replication"]["usd_per_month"]
    assert found["cheapest"]["way"] == "replication"
    assert found["cheapest"]["usd_per_month"] == found["replication"]["usd_per_month"]


def test_equally_cheap_ways_are_all_named() -> None:
    best = _slow_page(300.0, 0.5)["cheapest"]
    assert (best["way"], best["equal"]) == ("spares", ["replication"])


def test_copies_do_not_make_a_tier_available_and_the_reason_is_told() -> None:
    found = _limping([], limits=COPIES)
    assert found["replication"]["usd_per_month"] is None
    assert "limit of availability" in found["replication"]["reason"]
    assert found["cheapest"]["way"] == "spares"
    assert found["spares"]["usd_per_month"] == round(_usd(RATES) or 0.0, 2)
    assert "max_replicas = 1 " in _limping([])["replication"]["reason"]


def test_limping_that_costs_nothing_needs_nothing_bought() -> None:
    best = _limping([], rates={**RATES, "limp_recovery_s": 60.0})["cheapest"]
    assert (best["way"], best["undecided"]) == ("nothing", [])


def test_where_nothing_is_feasible_all_ways_say_so() -> None:
    found = _limping([], slo={"availability": 1.0 - 1e-9}, rates={**RATES, "failover_s": 9e5})
    assert found["cheapest"]["way"] is None
    for way in ("spares", "replication"):
        assert "even if no machine limps" in found[way]["reason"]


def test_ways_that_time_does_not_decide_say_so_and_the_plan_stands() -> None:
    remedy = {"name": "cure", "usd_per_month": 1.0, "limp_per_year": 0.0}
    plan, body = explained_plan(asked(SLO, rates=RATES, remedies=[remedy]), Wanted(seconds=0.0))
    assert plan.usd_per_month == _usd(RATES)
    found = body["limping"]
    assert all("cut" in found[way] for way in ("without_limping", "spares", "replication"))
    assert "cut" in found["remedies"][0]
    assert found["cheapest"]["way"] == "plan"
    assert found["cheapest"]["undecided"] == ["spares", "replication", "cure"]


def test_a_remedy_that_no_model_answers_does_not_cost_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PlannerError("plan", expected="fewer states", came="too many")

    monkeypatch.setattr(Case, "with_remedy", refuse)
    found = _limping([{"name": "cure", "usd_per_month": 1.0, "limp_per_year": 0.0}])
    assert "too many" in found["remedies"][0]["cut"]
    assert found["cheapest"]["way"] == "spares"
    assert found["cheapest"]["undecided"] == ["cure"]


def test_of_equally_cheap_fleets_one_with_fewer_copies_is_begun_with() -> None:
    copies = [option(0, 1, replicas, needed=2, vcpus=2, usd=30.0) for replicas in (1, 2, 3)]
    problem = Problem(options=(copies,), latency=latency)
    [found] = fewest_copies(problem, (copies[2],), lambda one: solve(one).path)
    assert found.replicas == 1
    [dear] = [option(0, 1, 1, needed=2, vcpus=2, usd=31.0)]
    problem = Problem(options=((dear, *copies[1:]),), latency=latency)
    [found] = fewest_copies(problem, (copies[2],), lambda one: solve(one).path)
    assert found.replicas == 2


def test_a_tier_that_gets_more_copies_may_have_machines_for_them_and_no_spare_more() -> None:
    front = [option(0, 1, replicas, needed=2, vcpus=2) for replicas in (1, 2)]
    back = {
        (level, needed, extra): option(1, level, 1, needed=needed, vcpus=2, extra=extra)
        for level, needed, extra in [
            (1, 2, 1), (1, 3, 0), (1, 3, 1), (2, 2, 1), (2, 2, 2), (2, 4, 1), (2, 4, 2), (2, 5, 1),
        ]
    }  # fmt: skip
    plain = (front[0], back[1, 2, 1])
    problem = Problem(options=(front, tuple(back.values())), latency=latency)
    _, kept = replication_alone(problem, plain).options
    assert {key for key, one in back.items() if one in kept} == {
        (1, 2, 1), (1, 3, 0), (2, 2, 1), (2, 4, 1)
    }  # fmt: skip


def test_spares_and_copies_keep_the_machine_type() -> None:
    old = option(0, 1, 1, needed=2, vcpus=2)
    types = [replace(old.instance, name="other"), replace(old.instance, name="larger", vcpus=4)]
    others = [replace(old, instance=one) for one in types]
    problem = Problem(options=((old, *others),), latency=latency)
    for held in (spares_alone, replication_alone):
        assert held(problem, (old,)).options == ((old,),)


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
    assert "Cheapest: the remedy found sooner, at " in printed
    assert "only spares more" in printed
    assert "only copies more" in printed
    assert "not feasible" in printed
    assert "Because machines limp, web has: +" in printed
    assert "if none limped" in printed
