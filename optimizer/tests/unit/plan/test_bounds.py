"""Bounds of the search and extremes of its input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, SparecraftError
from optimizer.availability import FailureRates, availability
from optimizer.plan.explain.curve import Budget
from optimizer.plan.explain.relaxation import relaxations
from optimizer.plan.explain.report import confidence_of
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.planner import make_plan
from optimizer.plan.solve import table
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import LIMIT_S, solve
from optimizer.plan.solve.problem import Problem
from optimizer.tests.one_tier import asked, planned, request_of
from optimizer.tests.small_problems import all_plans, latency, option
from optimizer.tests.synthetic import plan_instance
from optimizer.uncertainty import rates_from
from random_tests import examples


class Ticking:
    """A clock that advances by a fixed step each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.looks, self._step_s = 0.0, 0, step_s

    def __call__(self) -> float:
        self.now_s += self._step_s
        self.looks += 1
        return self.now_s


def _limping() -> PlanRequest:
    values: dict[str, Any] = {
        "scheme": "on-prem", "arrival_per_s": 15.0, "slo": {"availability": 0.999},
        "rates": {"crash_per_year": 12.0, "repair_s": 86400.0, "limp_per_year": 12.0,
                  "limp_recovery_s": 86400.0, "limp_capacity": 0.0},
        "tiers": [{"name": "web", "role": "solr", "processing_s": 0.065, "memory_mb": 1024,
                   "instance_types": ["slice-1"]}],
    }  # fmt: skip
    return request_of(values)


def test_a_plan_whose_options_take_too_long_is_not_decided() -> None:
    """Pools that are repaired are solved one by one: each looks at the clock."""
    clock = Ticking(LIMIT_S / 5.0)
    plan = make_plan(_limping(), clock=clock).plan
    assert plan.feasible is None
    assert plan.reasons[0].startswith("not decided: ")
    assert clock.now_s <= LIMIT_S + 5 * LIMIT_S / 5.0
    plan.to_json_dict()


@pytest.mark.parametrize("step_s", [0.5, 5.0])
def test_a_search_ends_soon_after_its_bound_with_a_plan_and_a_gap(step_s: float) -> None:
    case = plan_instance(2, tiers=4, types=10, max_nodes=10, max_replicas=2)
    problem, clock = case.problem(), Ticking(step_s)
    solution = solve(problem, None, Deadline(LIMIT_S, clock))
    assert solution.path is not None
    assert solution.proved or 0 < (solution.gap or 0) <= 1
    assert clock.now_s <= LIMIT_S + 40 * step_s  # looks after the bound: one a part of the search


def test_building_options_looks_at_the_clock() -> None:
    case = _limping().case
    with pytest.raises(OutOfTimeError):
        case.problem(check=Deadline(3.0, Ticking(1.0)).check)


def _in_domains(max_nodes: int, count: int = 8, per_s: float = 15.0, **tier: Any) -> PlanRequest:
    common = {"repair_s": 14400, "source": "x"}
    domains = [
        {"name": "zone", "count": 3, "failures_per_year": 0.5, "survive": True, **common},
        {"name": "host", "count": count, "failures_per_year": 1.0, "max_per_domain": 1, **common},
    ]
    values: dict[str, Any] = {
        "scheme": "on-prem", "arrival_per_s": per_s, "slo": {"availability": 0.9},
        "limits": {"max_nodes": max_nodes, "max_replicas": 1}, "domains": domains,
        "tiers": [{"name": "web", "role": "solr", "processing_s": 0.065, "memory_mb": 1024,
                   "instance_types": ["slice-1"], **tier}],
    }  # fmt: skip
    return request_of(values)


def test_a_rule_without_which_there_are_too_many_placements_is_not_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Zones and hosts; the plan itself needs few placements, the question without a rule many."""
    monkeypatch.setattr("optimizer.availability.placement.PLACEMENTS_MAX", 20)
    plan = make_plan(_in_domains(6, count=11)).plan
    assert plan.feasible
    without = {row["limit"]: row for row in plan.domains["without"]}
    assert without["domains.host.max_per_domain"]["usd_per_month"] is None
    assert without["domains.host.max_per_domain"]["proved"] is False


def test_more_nodes_than_can_be_placed_are_not_decided_and_no_wrong_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optimizer.availability.placement.PLACEMENTS_MAX", 5)
    case = _in_domains(3, count=13, per_s=60.0).case
    budget = Budget(20)
    assert "max_nodes" not in {row.limit for row in relaxations(case.problem(), budget, case)}
    assert "more than can be listed" in budget.ended


def test_a_present_fleet_that_cannot_be_placed_or_looked_at_in_time_does_not_cost_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present = {"instance_type": "slice-1", "nodes": 20}
    question = _in_domains(6, count=11, present=present)
    monkeypatch.setattr("optimizer.plan.explain.current_fleet._SECONDS", 0.0)
    late = make_plan(question).plan
    monkeypatch.setattr("optimizer.plan.explain.current_fleet._SECONDS", 60.0)
    monkeypatch.setattr("optimizer.availability.placement.PLACEMENTS_MAX", 8)
    for plan in (late, make_plan(question).plan):
        assert plan.feasible
        assert (plan.present["keeps_all_limits"], plan.present["predicted"]) == (None, None)
        assert plan.present["usd_more"] < 0
        plan.to_json_dict()


def test_draws_of_rates_that_there_is_no_time_for_are_not_counted() -> None:
    rates = {"crash_per_year": {"count": 3, "node_years": 2.0}}
    outcome = make_plan(asked({"availability": 0.999}, rates=rates))
    arguments = (outcome.case, rates_from(rates), outcome.solution.path)
    full, empty = (confidence_of(*arguments, Deadline(seconds)) for seconds in (60.0, 0.0))
    assert (full["draws"], empty["draws"]) == (100, 0)
    assert empty["probability_kept"] is empty["availability_p05"] is None


def test_software_that_no_machine_of_the_region_runs_is_the_reason_and_not_memory() -> None:
    tier = {"arch": ["arm64"], "instance_types": None}
    plan = planned({"availability": 0.99}, tier=tier, scheme="on-prem")
    assert plan.reasons == ("tier web: arch: on-prem has no instance type of arm64",)


def test_a_way_to_pay_in_the_place_of_a_type_is_refused() -> None:
    prices = {"book": "ec2", "purchase": [{"name": "spot", "discount": 0.6}]}
    with pytest.raises(InputError) as error:
        asked({"availability": 0.99}, tier={"instance_types": ["c5.large@spot"]}, prices=prices)
    assert error.value.place == "plan.toml: tiers.0.instance_types"
    assert "c5.large" in error.value.hint


_HUGE = {"instance_types": ["c5.huge"]}
_LIMPING = {"limp_per_year": 12.0, "limp_recovery_s": 600.0}
_ZONE = {"name": "zone", "count": 3, "failures_per_year": 0.5, "source": "x"}
_REMEDY = {"name": "x", "usd_per_month": 1.0}


@pytest.mark.parametrize(
    ("key", "tier", "values"),
    [
        # names that the book does not have
        ("prices.region", {}, {"prices": {"region": "mars"}}),
        ("prices.purchase.0.instance_types", {},
         {"prices": {"purchase": [{"name": "spot", "discount": 0.6, **_HUGE}]}}),
        ("prices.speeds.0.instance_types", {},
         {"prices": {"speeds": [{"per_core": 1.1, "source": "x", **_HUGE}]}}),
        ("schedule.quotas.0.instance_types", {},
         {"load": {"day": [1.0] * 24}, "schedule": {"quotas": [{"machines": 3, **_HUGE}]}}),
        ("tiers.0.instance_types", _HUGE, {}),
        ("tiers.0.present.instance_type",
         {"present": {"instance_type": "c5.huge", "nodes": 1}}, {}),
        # figures that make none together
        ("slo.p95_ms", {"processing_s": 3e9}, {"slo": {"p95_ms": 500.0}}),
        ("rates.crash_per_year", {},
         {"rates": {"crash_per_year": 2e7},
          "prices": {"purchase": [{"name": "spot", "discount": 0.6,
                                   "interruptions_per_year": 2e7}]}}),
        ("tiers.0.data_gb", {"state": "copied", "data_gb": 1e13}, {}),
        # more than a crash a second
        ("rates.crash_per_year", {}, {"rates": {"crash_per_year": 1e9}}),
        ("prices.purchase.0.interruptions_per_year", {},
         {"prices": {"purchase": [{"name": "spot", "discount": 0.6,
                                   "interruptions_per_year": 1e9}]}}),
        ("transient_faults", {},
         {"slo": {"integrity": {"wrong_per_million": 9e5}},
          "transient_faults": {"per_node_month": 1e15, "source": "x"}}),
        # a share of crashes that makes no rate
        ("domains.0.beta", {},
         {"domains": [{"name": "zone", "count": 3, "beta": 1e-20, "repair_s": 60.0,
                       "source": "x"}]}),
        # a workload without the run that has it
        ("tiers.0.workload", {"workload": "php-loop"}, {}),
        # integers that no float holds
        ("tiers.0.memory_mb", {"memory_mb": 10**400}, {}),
        ("slo.degraded.nodes_down", {},
         {"slo": {"availability": 0.9, "degraded": {"nodes_down": 10**20}}}),
        ("rates.repair_crew", {}, {"rates": {"repair_s": 60.0, "repair_crew": 10**400}}),
        ("rates.crash_per_year.count", {},
         {"rates": {"crash_per_year": {"count": 10**400, "node_years": 1.0}}}),
        ("schedule.quotas.0.machines", {}, {"load": {"day": [1.0] * 24}, "schedule": {
            "quotas": [{"instance_types": ["c5.large"], "machines": 10**400}]}}),
        ("hosts.0.memory_mb", {}, {"hosts": [{"name": "h", "count": 1, "cores": 8.0,
                                              "memory_mb": 10**400, "usd_per_month": 1.0}]}),
        ("arrival_per_s", {}, {"arrival_per_s": 10**400}),
        # times and rates that nobody can have observed
        ("tiers.0.processing_s", {"processing_s": 1e15}, {}),
        ("tiers.0.token_hold_s", {"token_hold_s": 1e15}, {}),
        ("tiers.0.run_s", {"run_s": 1e15}, {}),
        ("rates.failover_s", {}, {"rates": {"failover_s": 1e15}}),
        ("rates.failover_s.samples[0]", {}, {"rates": {"failover_s": {"samples": 4 * [1e15]}}}),
        ("rates.repair_s", {}, {"rates": {"repair_s": 1e15}}),
        ("rates.limp_recovery_s", {}, {"rates": {**_LIMPING, "limp_recovery_s": 1e15}}),
        ("rates.limp_per_year", {}, {"rates": {**_LIMPING, "limp_per_year": 1e15}}),
        ("remedies.0.limp_per_year", {},
         {"rates": _LIMPING, "remedies": [{**_REMEDY, "limp_per_year": 1e15}]}),
        ("domains.0.repair_s", {}, {"domains": [{**_ZONE, "repair_s": 1e15}]}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_key(
    key: str, tier: dict[str, Any], values: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as error:
        asked(**{"slo": {"availability": 0.9}, **values}, tier=tier)
    assert error.value.place == f"plan.toml: {key}"


@pytest.mark.parametrize("name", ["", "a\nb", 'a"b', "${a}", "\x00", "a/b", "\u00e9"])
def test_a_name_that_would_change_what_fleet_tfvars_means_is_refused(name: str) -> None:
    host = {"name": name, "count": 1, "cores": 8.0, "memory_mb": 4096, "usd_per_month": 1.0}
    questions: dict[str, dict[str, Any]] = {
        "hosts.0.name": {"tier": {"instance_types": None}, "hosts": [host], "scheme": "on-prem"},
        "tiers.0.role": {"tier": {"role": name}},
    }
    for place, values in questions.items():
        with pytest.raises(InputError) as error:
            asked({"availability": 0.9}, **values)
        assert error.value.place == f"plan.toml: {place}"


def _for_types(*names: str) -> dict[str, dict[str, Any]]:
    """Return, by key, the values of plan.toml that hold only for the named types."""
    types = {"instance_types": list(names)}
    return {
        "prices.speeds": {"prices": {"speeds": [{"per_core": 1.1, "source": "x", **types}]}},
        "prices.purchase": {"prices": {"purchase": [{"name": "spot", "discount": 0.6, **types}]}},
        "schedule.quotas": {"load": {"day": [1.0] * 24}, "schedule": {
            "quotas": [{"machines": 3, **types}]}},
    }  # fmt: skip


@pytest.mark.parametrize("key", _for_types())
@pytest.mark.parametrize(
    ("other", "tier"),
    [("m5.large", {}), ("c6g.large", {"instance_types": None})],
    ids=["not allowed", "another arch"],
)
def test_a_figure_of_types_that_no_tier_may_use_is_refused_at_its_key(
    key: str, other: str, tier: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as error:
        asked({"availability": 0.99}, tier=tier, **_for_types(other)[key])
    assert error.value.place == f"plan.toml: {key}.0.instance_types"
    asked({"availability": 0.99}, tier=tier, **_for_types(other, "c5.large")[key])


@pytest.mark.parametrize("availability", [5e-324, 1e-300, 1e-17])
def test_an_availability_that_each_fleet_keeps_takes_the_cheapest(availability: float) -> None:
    """1 - A is 1 in floating point: the budget of lost availability has no end."""
    plan = planned({"availability": availability})
    assert plan.usd_per_month == planned({"p95_ms": 1e5}).usd_per_month


@pytest.mark.parametrize("more", [0, 1, 2])
def test_machines_that_have_to_be_active_count_as_spare_where_that_is_better(more: int) -> None:
    """A shock takes all down, and as many as are needed have to be back: the fewer the better."""
    rates = FailureRates(crash_per_year=6.0, failover_s=3600.0, common_cause=0.1)

    def lost(needed: int, extra: int) -> float:
        prediction = availability(needed, extra, rates, mechanism="ara", scheme="cloud")
        return prediction.unavailability_most

    lost_max = lost(2 + more, 7 - more) * (1.0 + 1e-9)
    sizes = [(n, e) for n in range(2, 13) for e in range(13 - n) if n + e >= 9]
    best = min(n + e for n, e in sizes if lost(n, e) <= lost_max)
    question = asked(
        {"availability": 1.0 - lost_max}, arrival_per_s=80.0,
        limits={"max_nodes": 12, "max_replicas": 1},
        tier={"instance_types": ["c5.large"], "min_nodes": 9},
        rates={"crash_per_year": 6.0, "failover_s": 3600.0, "common_cause": 0.1},
    )  # fmt: skip
    assert make_plan(question).plan.tiers["web"].nodes == best == 9


def test_memory_that_no_machine_has_is_the_reason() -> None:
    plan = planned({"availability": 0.99}, tier={"memory_mb": 80_000})
    assert plan.feasible is False
    assert len(plan.reasons) == 1
    assert plan.reasons[0].startswith("tier web: memory_mb: ")


@pytest.mark.parametrize(
    ("slo", "tier", "key"),
    [
        ({"availability": 0.99}, {"cv2": 25.0}, "cv2"),
        ({"availability": 0.99}, {"cv2": 0.01}, "cv2"),
        ({"availability": 0.99, "confidence": 1e-300}, {}, "confidence"),
        ({"availability": 0.99, "degraded": {"nodes_down": 1, "limp_speed": 0.5}}, {},
         "limp_speed"),
        ({"p95_ms": 900.0}, {"requests_per_copy": 3.0}, "requests_per_copy"),
        ({"p95_ms": 900.0}, {"interference_share": 0.2}, "gamma"),
        ({"p95_ms": 900.0}, {"gamma": 0.5}, "gamma"),
        ({"p95_ms": 900.0}, {"run_s": 5.0}, "run_s"),
    ],
)  # fmt: skip
def test_a_figure_that_would_be_changed_or_ignored_is_refused(
    slo: dict[str, Any], tier: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as error:
        asked(slo, tier=tier)
    assert error.value.place.endswith(key)


@pytest.mark.parametrize(
    "text",
    ["a = " + "9" * 5_000, "a = " + "[" * 5_000 + "]" * 5_000,
     "a = " + "{b = " * 5_000 + "1" + "}" * 5_000],
)  # fmt: skip
def test_the_extremes_of_toml_are_refused(text: str, tmp_path: Path) -> None:
    from core.config_file import read_toml

    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"plan\.toml: expected valid TOML"):
        read_toml(path)


def test_the_mark_that_some_editors_begin_a_file_with_is_no_error(tmp_path: Path) -> None:
    from core.config_file import read_toml

    path = tmp_path / "plan.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(path).values == {"a": 1}


_TIERS = (  # upstream, replicas, vcpus, needed, extra, USD, unavailability, utilisation, met
    ((1, 1, 2, 2, 2, 26.0, 5e-7, 0.8, 0.0), (1, 1, 4, 5, 2, 1.0, 1e-4, 0.6, 0.0),
     (1, 1, 2, 3, 0, 13.0, 3e-7, 0.3, 0.0), (1, 1, 2, 2, 2, 40.0, 1e-3, 0.6, 0.0)),
    ((1, 1, 1, 5, 1, 25.0, 1e-6, 0.6, 0.0), (1, 1, 4, 1, 1, 9.0, 1e-6, 0.3, 0.0),
     (1, 2, 1, 4, 2, 7.0, 1e-6, 0.6, 0.0), (1, 2, 2, 4, 2, 40.0, 3e-7, 0.3, 0.0),
     (1, 2, 2, 2, 1, 24.0, 1e-4, 0.8, 0.0), (1, 2, 1, 2, 0, 7.0, 1e-4, 0.3, 0.0)),
    ((1, 1, 4, 2, 1, 28.0, 5e-7, 0.8, 0.0), (1, 1, 4, 5, 1, 23.0, 1e-3, 0.3, 0.0),
     (1, 1, 2, 5, 2, 26.0, 3e-7, 0.6, 0.0), (2, 1, 4, 1, 1, 10.0, 1e-7, 0.3, 0.6),
     (2, 1, 2, 5, 2, 26.0, 1e-3, 0.6, 0.6)),
)  # fmt: skip


@pytest.mark.parametrize("unavailability_max", [0.00010129985970003, 1e-5, 2e-6])
def test_the_cheapest_fleet_is_found_where_one_way_to_ask_the_solver_misses_it(
    unavailability_max: float,
) -> None:
    tiers = [
        tuple(
            option(tier, upstream, replicas, needed=needed, vcpus=vcpus, usd=usd, extra=extra, u=u,
                   used=used, met=met)
            for upstream, replicas, vcpus, needed, extra, usd, u, used, met in rows
        )
        for tier, rows in enumerate(_TIERS)
    ]  # fmt: skip
    problem = Problem(options=tuple(tiers), latency=latency, unavailability_max=unavailability_max,
                      latency_ms_max={95: 459.0139203839187, 99: 599.6778436786628},
                      utilisation_max=math.inf, collision_max=0.5)  # fmt: skip
    least, path = all_plans(problem)[0]
    solution = solve(problem)
    assert (solution.usd_per_month, solution.path) == (least, path)
    assert solution.proved


NUMBERS = st.sampled_from([5e-324, 1e-320, 1e-300, 1e-15, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e15, 1e300])
FINITE = st.one_of(NUMBERS, st.floats(-20, 20).map(lambda x: 10.0**x))


@examples(150)
@given(FINITE, FINITE, st.one_of(st.none(), FINITE), st.sampled_from(["ara", "pf"]),
       st.sampled_from(["cloud", "on-prem"]), st.booleans())  # fmt: skip
def test_the_availability_of_any_numbers_is_a_share_or_refused(
    crash: float, failover: float, repair: float | None, mechanism: str, scheme: str, shocks: bool
) -> None:
    try:
        rates = FailureRates(crash, failover, repair, common_cause=0.3 if shocks else 0.0)
        prediction = availability(3, 2, rates, mechanism=mechanism, scheme=scheme)
    except SparecraftError:
        return
    assert 0 <= prediction.unavailability <= 1
    assert prediction.error_bound < 1e-9


def _stated(**changes: Any) -> dict[str, Any]:
    tier = {"name": "web", "role": "r", "processing_s": 0.03, "memory_mb": 900, "cv2": 1.0}
    tier |= {"gamma": 1.0, "interference_share": 0.1, "run_s": 0.0, "requests_per_copy": 1.0}
    values: dict[str, Any] = {"scheme": "cloud", "arrival_per_s": 20.0,
                              "slo": {"availability": 0.999, "p99_ms": 400.0},
                              "limits": {"max_nodes": 4, "max_replicas": 1},
                              "rates": {"crash_per_year": 1.0, "failover_s": 15.0}}  # fmt: skip
    for key, value in changes.items():
        table_of_key = next(
            (t for t in (tier, values["slo"], values["rates"], values) if key in t), values
        )
        table_of_key[key] = value
    return {**values, "tiers": [tier]}


@examples(60)
@given(
    st.dictionaries(
        st.sampled_from(
            (
                *("arrival_per_s", "processing_s", "cv2", "gamma", "run_s", "requests_per_copy"),
                *("p99_ms", "crash_per_year", "failover_s", "interference_share"),
            )
        ),
        FINITE,
        min_size=1,
        max_size=3,
    )
)
def test_a_plan_of_any_numbers_is_made_or_refused(changes: dict[str, float]) -> None:
    try:
        outcome = make_plan(request_of(_stated(**changes)))
    except SparecraftError:
        return
    outcome.plan.to_json_dict()


def test_more_machines_than_a_table_holds_are_refused() -> None:
    values = _stated()
    values["limits"]["max_nodes"] = 100_000
    with pytest.raises(InputError, match=r"limits\.max_nodes.*200"):
        request_of(values)


def test_a_tier_with_more_ways_to_build_it_than_fit_is_refused_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "ROWS_MAX", 10)
    request = request_of(_stated())
    with pytest.raises(InputError, match="at most 10 ways"):
        request.case.problem()
