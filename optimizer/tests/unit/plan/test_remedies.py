"""Ways out of limping, remedies, spares, copies: each planned with by itself, and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, PlannerError
from optimizer.commands.plan_limping import print_limping
from optimizer.plan.explain import remedies as explained_ways
from optimizer.plan.explain.curve import Budget, SpentError
from optimizer.plan.explain.reasons import ExplainOptions
from optimizer.plan.explain.remedies import AgainstLimping, plan_against_limping
from optimizer.plan.explain.single_measures import fewest_copies, replication_alone, spares_alone
from optimizer.plan.inputs.case import Case
from optimizer.plan.planner import explain_plan, make_plan
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.problem import Problem, violations
from optimizer.tests.command_line import output_of
from optimizer.tests.one_tier import asked, planned
from optimizer.tests.small_problems import latency, option

# a twentieth of the time a machine does nothing, so that one alone is not available enough
RATES = {"crash_per_year": 1.0, "limp_per_year": 50.0, "limp_recovery_s": 36_000.0}
SLO = {"availability": 0.999}
COPIES = {"max_nodes": 8, "max_replicas": 3}
CURE = {"usd_per_month": 1.0, "limp_per_year": 0.0}
ENDLESS = ExplainOptions(seconds=1e9, clock=lambda: 0.0)


def _limping(remedies: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    keys = {"slo": SLO, "rates": RATES, **values}
    _, body = explain_plan(asked(**keys, remedies=remedies), ENDLESS)
    limping: dict[str, Any] = body["limping"]
    return limping


def _usd(rates: dict[str, float], slo: dict[str, Any] = SLO) -> Any:
    return planned(slo, rates=rates).usd_per_month


def test_each_row_is_the_plan_that_the_remedys_figures_give() -> None:
    changes = [{"limp_recovery_s": 60.0}, {"limp_capacity": 0.9}, {"limp_per_year": 1.0}]
    rows = _limping([{"name": f"{n}", "usd_per_month": 7.0, **c} for n, c in enumerate(changes)])[
        "remedies"
    ]
    assert len(rows) == len(changes)
    for row in rows:
        fleet = _usd({**RATES, **changes[int(row["name"])]})
        assert row["usd_fleet"] == round(fleet, 2)
        assert row["usd_per_month"] == round(fleet + 7.0, 2)
    totals = [row["usd_per_month"] for row in rows]
    assert totals == sorted(totals)


def test_limping_costs_what_the_plan_has_beyond_a_fleet_in_which_nothing_limps() -> None:
    limping = _limping([{"name": "a", "usd_per_month": 1.0, "limp_per_year": 0.0}])
    plan, plain = _usd(RATES), _usd({"crash_per_year": 1.0})
    assert limping["usd_more"] == round(plan - plain, 2) > 0
    assert limping["without_limping"]["usd_per_month"] == round(plain, 2)
    assert limping["bought"]["web"]["nodes"] > 0


@pytest.mark.parametrize(("below", "cheapest"), [(1.0, "cure"), (-1.0, None)])
def test_a_remedy_wins_exactly_up_to_what_limping_costs(below: float, cheapest: str | None) -> None:
    plan, plain = _usd(RATES), _usd({"crash_per_year": 1.0})
    price = plan - plain - below
    limping = _limping([{"name": "cure", "usd_per_month": price, "limp_per_year": 0.0}])
    assert limping["cheapest"]["name"] == cheapest
    assert limping["cheapest"]["way"] == ("remedy" if cheapest else "spares")


def test_a_remedy_may_make_feasible_what_no_machines_do() -> None:
    hopeless = {**RATES, "limp_recovery_s": 1e6}
    assert _usd(hopeless) is None
    remedies = [
        {"name": "too little", "usd_per_month": 1.0, "limp_recovery_s": 9e5},
        {"name": "enough", "usd_per_month": 900.0, "limp_recovery_s": 600.0},
    ]
    limping = _limping(remedies, rates=hopeless)
    assert limping["cheapest"]["name"] == "enough"
    assert limping["usd_more"] is None
    assert limping["bought"] == {}
    assert [row["usd_per_month"] is None for row in limping["remedies"]] == [False, True]


def test_a_remedy_of_the_speed_while_limping_counts_for_the_degraded_limits() -> None:
    def slo(speed: float) -> dict[str, Any]:
        return {"p99_ms": 200.0, "degraded": {"limping": 1, "limp_speed": speed}}

    remedy = {"name": "hedged", "usd_per_month": 3.0, "limp_speed": 0.9}
    limping = _limping([remedy], slo=slo(0.5), rates={})
    slow, fast = (_usd({}, slo(speed)) for speed in (0.5, 0.9))
    assert limping["remedies"][0]["usd_per_month"] == round(fast + 3.0, 2)
    assert limping["usd_more"] == round(slow - _usd({}, {"p99_ms": 200.0}), 2)


def test_a_plan_says_nothing_of_limping_that_it_does_not_know_of() -> None:
    _, body = explain_plan(asked(SLO, rates={"crash_per_year": 1.0}), ENDLESS)
    assert "limping" not in body


def _slow_page(p99_ms: float, speed: float) -> dict[str, Any]:
    slo = {"p99_ms": p99_ms, "degraded": {"limping": 1, "limp_speed": speed}}
    return _limping([], slo=slo, rates={}, limits=COPIES)


@pytest.mark.parametrize(("p99_ms", "speed"), [(200.0, 0.1), (300.0, 0.1), (300.0, 0.5)])
def test_spares_and_copies_cost_what_all_such_fleets_bought_one_by_one_do(
    p99_ms: float, speed: float
) -> None:
    slo = {"p99_ms": p99_ms, "degraded": {"limping": 1, "limp_speed": speed}}
    problem = make_plan(asked(slo, limits=COPIES)).problem
    plain = make_plan(asked({"p99_ms": p99_ms}, limits=COPIES)).solution
    [old] = plain.path
    assert old.replicas == 1  # so that which of equal fleets is taken does not matter
    spares, copies = [], []
    for candidate in problem.options[0]:
        if candidate.instance.name != old.instance.name or violations(problem, (candidate,)):
            continue
        if candidate.replicas == 1:
            spares.append(candidate.usd_per_month)
        for_load = min(max(candidate.needed - old.needed, 0), (candidate.replicas - 1) * old.needed)
        if candidate.needed + candidate.extra - for_load <= old.needed + old.extra:
            copies.append(candidate.usd_per_month)
    limping = _slow_page(p99_ms, speed)
    assert limping["spares"]["usd_per_month"] == pytest.approx(min(spares), abs=0.01)
    assert limping["replication"]["usd_per_month"] == pytest.approx(min(copies), abs=0.01)


def test_copies_answer_a_slow_page_more_cheaply_than_spares_do() -> None:
    limping = _slow_page(200.0, 0.1)
    assert limping["spares"]["usd_per_month"] > limping["replication"]["usd_per_month"]
    assert limping["cheapest"]["way"] == "replication"
    assert limping["cheapest"]["usd_per_month"] == limping["replication"]["usd_per_month"]
    cheapest = _slow_page(300.0, 0.5)["cheapest"]
    assert (cheapest["way"], cheapest["equal"]) == ("spares", ["replication"]), (
        "all equal ones are named"
    )


def test_copies_do_not_make_a_tier_available_and_the_reason_is_told() -> None:
    limping = _limping([], limits=COPIES)
    assert limping["replication"]["usd_per_month"] is None
    assert "limit of availability" in limping["replication"]["reason"]
    assert limping["cheapest"]["way"] == "spares"
    assert limping["spares"]["usd_per_month"] == round(_usd(RATES), 2)
    assert "max_replicas = 1 " in _limping([])["replication"]["reason"]


def test_limping_that_costs_nothing_needs_nothing_bought() -> None:
    cheapest = _limping([], rates={**RATES, "limp_recovery_s": 60.0})["cheapest"]
    assert (cheapest["way"], cheapest["perhaps_cheaper"], cheapest["perhaps_equal"]) == (
        "nothing",
        [],
        [],
    )
    limping = _limping([{**CURE, "name": "cure"}], rates={**RATES, "limp_capacity": 1.0})
    assert limping["cheapest"]["way"] == "nothing"
    assert (
        limping["remedies"][0]["usd_per_month"] == limping["without_limping"]["usd_per_month"] + 1.0
    )


def test_where_nothing_is_feasible_all_ways_say_so() -> None:
    limping = _limping([], slo={"availability": 1.0 - 1e-9}, rates={**RATES, "failover_s": 9e5})
    assert limping["cheapest"]["way"] is None
    for way in ("spares", "replication"):
        assert "even if no machine limps" in limping[way]["reason"]


def test_ways_that_time_does_not_decide_say_so_and_the_plan_stands() -> None:
    remedies = [{**CURE, "name": "cure"}]
    plan, body = explain_plan(
        asked(SLO, rates=RATES, remedies=remedies), ExplainOptions(seconds=0.0)
    )
    assert plan.usd_per_month == _usd(RATES)
    limping = body["limping"]
    assert all("cut" in limping[way] for way in ("without_limping", "spares", "replication"))
    assert "cut" in limping["remedies"][0]
    assert limping["cheapest"]["way"] == "plan"
    assert limping["cheapest"]["perhaps_cheaper"] == ["cure"]
    assert limping["cheapest"]["perhaps_equal"] == ["spares", "replication"]


@pytest.fixture
def _no_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PlannerError("plan", expected="fewer states", got="too many")

    monkeypatch.setattr(Case, "with_remedy", refuse)


@pytest.mark.usefixtures("_no_model_answers")
def test_a_remedy_that_no_model_answers_does_not_cost_the_plan() -> None:
    limping = _limping([{**CURE, "name": "cure"}])
    assert "too many" in limping["remedies"][0]["cut"]
    assert limping["cheapest"]["way"] == "spares"
    assert limping["cheapest"]["perhaps_cheaper"] == ["cure"]


def test_of_equally_cheap_fleets_one_with_fewer_copies_is_begun_with() -> None:
    copies = [option(0, 1, replicas, needed=2, vcpus=2, usd=30.0) for replicas in (1, 2, 3)]
    problem = Problem(options=(copies,), latency=latency)
    [choice] = fewest_copies(problem, (copies[2],), lambda narrowed: solve(narrowed).path)
    assert choice.replicas == 1
    [dear] = [option(0, 1, 1, needed=2, vcpus=2, usd=31.0)]
    problem = Problem(options=((dear, *copies[1:]),), latency=latency)
    [choice] = fewest_copies(problem, (copies[2],), lambda narrowed: solve(narrowed).path)
    assert choice.replicas == 2


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
    _, back_options = replication_alone(problem, plain).options
    assert {key for key, candidate in back.items() if candidate in back_options} == {
        (1, 2, 1), (1, 3, 0), (2, 2, 1), (2, 4, 1)
    }  # fmt: skip


def test_spares_and_copies_keep_the_machine_type() -> None:
    old = option(0, 1, 1, needed=2, vcpus=2)
    types = [replace(old.instance, name="other"), replace(old.instance, name="larger", vcpus=4)]
    others = [replace(old, instance=instance) for instance in types]
    problem = Problem(options=((old, *others),), latency=latency)
    for restrict in (spares_alone, replication_alone):
        assert restrict(problem, (old,)).options == ((old,),)


def test_what_equally_cheap_fleets_differ_in_is_not_bought_against_limping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = make_plan(asked(SLO, limits=COPIES, rates={**RATES, "limp_recovery_s": 60.0}))
    [plan] = outcome.solution.path
    with_copies = replace(outcome.solution, path=(replace(plan, replicas=plan.replicas + 1),))
    budget = Budget(100)
    body = plan_against_limping(outcome.case, outcome.problem, with_copies, budget)
    assert (body["cheapest"]["way"], body["bought"]) == ("nothing", {})

    def fewer(_problem: Problem, plain: tuple[Any, ...], _solved: object) -> tuple[Any, ...]:
        return tuple(replace(choice, replicas=2) for choice in plain)

    monkeypatch.setattr(explained_ways, "fewest_copies", fewer)
    assert "replicas" not in _limping([])["bought"]["web"]


def test_replication_without_a_copy_more_says_so_and_is_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limping = _limping([], rates={**RATES, "limp_recovery_s": 60.0}, limits=COPIES)
    assert limping["replication"]["reason"] == "no copy more is needed"
    # as if spares were all that replication alone is
    monkeypatch.setattr(explained_ways, "replication_alone", spares_alone)
    limping = _limping([], limits=COPIES)
    assert limping["replication"]["usd_per_month"] == limping["spares"]["usd_per_month"]
    assert limping["cheapest"]["way"] == "spares"
    assert limping["cheapest"]["equal"] == []


def test_remedies_come_before_spares_and_copies_and_fewer_copies_have_a_bound_of_their_own() -> (
    None
):
    messages: list[str] = []
    remedies = [{**CURE, "name": "cure"}]
    slo = {"p99_ms": 200.0, "degraded": {"limping": 1, "limp_speed": 0.1}}
    question = asked(slo, rates=RATES, remedies=remedies, limits=COPIES)
    explain_plan(question, replace(ENDLESS, say=messages.append))
    ways = [text.removeprefix("limping: ") for text in messages if text.startswith("limping: ")]
    assert [way for way in ways if way != "fewer copies"] == [
        "none", "cure", "spares", "replication",
    ]  # fmt: skip
    now_s = 0.0
    budget = Budget(10, seconds=60.0, clock=lambda: now_s)
    part = budget.part(2, 0.25)
    now_s = 15.0
    with pytest.raises(SpentError):
        part.left_s()
    assert budget.left_s() == 45.0


def _printed(capsys: pytest.CaptureFixture[str], limping: AgainstLimping) -> str:
    print_limping(limping, limping["cheapest"]["usd_per_month"])
    return " ".join(capsys.readouterr().out.split())


def test_a_plan_is_not_said_to_be_below_what_was_not_decided(
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = asked(SLO, rates=RATES, remedies=[{**CURE, "name": "cure"}])
    _, body = explain_plan(question, ExplainOptions(seconds=0.0))
    printed = _printed(capsys, body["limping"])
    assert "Cheapest: this plan, at" in printed
    assert "perhaps cheaper: cure." in printed
    assert "perhaps as cheap: spares, replication." in printed


def test_only_an_unproved_plan_may_be_dearer_than_spares_that_were_not_decided() -> None:
    outcome = make_plan(asked(SLO, rates=RATES))
    unproved = replace(outcome.solution, gap=0.5, proof="none")
    spent = Budget(0)
    cheapest = plan_against_limping(outcome.case, outcome.problem, unproved, spent)["cheapest"]
    assert cheapest["perhaps_cheaper"] == ["spares", "replication"]
    assert cheapest["perhaps_equal"] == []


@pytest.mark.usefixtures("_no_model_answers")
def test_where_limping_costs_nothing_no_undecided_remedy_is_cheaper() -> None:
    rates = {**RATES, "limp_recovery_s": 60.0}
    cheapest = _limping([{**CURE, "name": "cure"}], rates=rates)["cheapest"]
    assert (cheapest["way"], cheapest["perhaps_cheaper"]) == ("nothing", [])


def test_a_plan_that_is_not_feasible_and_a_remedy_that_is_not_decided_are_not_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hopeless = {**RATES, "limp_recovery_s": 1e6}
    question = asked(SLO, rates=hopeless, remedies=[{**CURE, "name": "cure"}])
    _, body = explain_plan(question, ExplainOptions(seconds=0.0))
    assert body["limping"]["cheapest"]["perhaps_cheaper"] == ["cure"]
    printed = _printed(capsys, body["limping"])
    assert "none found" in printed
    assert "perhaps feasible: cure." in printed
    assert "nothing is feasible" not in printed


def test_a_remedy_that_does_not_do_names_the_machines_that_it_was_given() -> None:
    remedy = {"name": "too little", "usd_per_month": 1.0, "limp_recovery_s": 9e5}
    limping = _limping([remedy], rates={**RATES, "limp_recovery_s": 1e6})
    assert "(max_nodes)" in limping["remedies"][0]["reason"]


@pytest.mark.parametrize("name", ["nothing", "spares", "replication", "plan"])
def test_a_remedy_with_the_name_of_another_way_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"remedies\.0\.name"):
        asked(SLO, rates=RATES, remedies=[{**CURE, "name": name}])
    with pytest.raises(InputError, match=r"remedies\.1\.name"):
        asked(SLO, rates=RATES, remedies=[{**CURE, "name": "a"}] * 2)


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
