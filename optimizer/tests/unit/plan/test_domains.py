"""Plans over zones and hosts, against every fleet and every way to place it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.tolerances import U_FLOOR
from core.units import YEAR_S
from optimizer.availability import FailureRates, availability
from optimizer.availability.models import pool_consumed
from optimizer.latency import TierLatency
from optimizer.plan.inputs.case import Case, Slo
from optimizer.plan.inputs.domains import Domain, own_rates
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.inputs.request import request_from_plan_file
from optimizer.plan.planner import make_plan
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Limits, TierDemand, usd_when_off
from optimizer.prices import Instance, PriceBook
from optimizer.tests.command_line import json_of, output_of
from optimizer.tests.one_tier import asked, late, planned
from random_tests import examples

ZONE = {"name": "zone", "count": 3, "failures_per_year": 0.5, "repair_s": 14_400.0,
        "source": "stated for this test"}  # fmt: skip
HOST = {"name": "host", "count": 2, "failures_per_year": 2.0, "repair_s": 7_200.0,
        "source": "stated for this test"}  # fmt: skip
ZONES = """
scheme = "cloud"
arrival_per_s = 20.0
[slo]
availability = 0.999
p99_ms = 400.0
[limits]
max_nodes = 5
max_replicas = 1
[[domains]]
name = "zone"
count = 3
failures_per_year = 0.5
repair_s = 14400.0
source = "stated for this test"
survive = true
[[tiers]]
name = "web"
role = "mediawiki"
processing_s = 0.03
memory_mb = 900
instance_types = ["c5.large"]
"""
BOOK = PriceBook("2026-01-01", "drawn", {"here": (
    Instance("small", 1.0, 8.0, 0.05, usd_per_month_off=10.0),
    Instance("large", 2.0, 8.0, 0.09, usd_per_month_off=20.0),
)})  # fmt: skip


def _domain(**values: Any) -> Domain:
    return Domain.model_validate(values)


def _case(domains: tuple[Domain, ...], rates: FailureRates, **figures: Any) -> Case:
    """One tier: 100 requests a second of `busy_s` each, r = 1 or up to `replicas`."""
    law = TierLatency(figures.get("busy_s", 0.011), 1.0, 1.0)
    return Case(
        tiers=(TierDemand("web", law, 100.0, 512.0),),
        slo=Slo(availability=figures.get("target", 0.999)),
        scheme=figures.get("scheme", "cloud"),
        region="here",
        book=BOOK,
        limits=Limits(max_nodes=figures.get("max_nodes", 5), max_replicas=1, max_utilisation=1.0),
        rates=rates,
        domains=domains,
    )


@st.composite
def levels(draw: st.DrawFn) -> tuple[Domain, ...]:
    """Draw zones, with or without hosts in them, and any of the rules."""
    domains = []
    for table in (ZONE, HOST)[: draw(st.integers(1, 2))]:
        rules: dict[str, Any] = {
            "survive": draw(st.booleans()),
            "max_per_domain": draw(st.sampled_from([None, None, 1, 2, 3])),
            "min_domains": draw(st.sampled_from([None, None, 2])),
        }
        count = draw(st.sampled_from([2, 3])) if table is ZONE else 2
        failures: dict[str, Any] = {"failures_per_year": draw(st.sampled_from([0.01, 0.5, 20.0]))}
        if draw(st.sampled_from([False, False, True])):
            failures = {"failures_per_year": None, "beta": draw(st.sampled_from([0.05, 0.3]))}
        domains.append(_domain(**{**table, "count": count, **failures, **rules}))
    return tuple(domains)


@examples(40)
@given(levels(), st.sampled_from(["cloud", "on-prem"]), st.sampled_from([None, 86_400.0]),
       st.sampled_from([0.9, 0.99, 0.999, 0.9999, 0.99999]), st.integers(2, 4))  # fmt: skip
def test_no_fleet_in_any_places_is_cheaper(
    domains: tuple[Domain, ...], scheme: str, repair_s: float | None, target: float, max_nodes: int
) -> None:
    rates = FailureRates(crash_per_year=2.0, repair_s=repair_s)
    case = _case(domains, rates, scheme=scheme, target=target, max_nodes=max_nodes)
    solution = solve(case.problem())
    costs = _costs_of_all_fleets(case, max_nodes)
    assert solution.usd_per_month == (pytest.approx(min(costs)) if costs else None)


def _costs_of_all_fleets(case: Case, max_nodes: int) -> list[float]:
    """List USD a month of each fleet with a placement that keeps target, load and rules."""
    costs, least_lost = [], cache(lambda *how: min(_lost_anywhere(case, *how), default=1.0))
    for machine, needed in itertools.product(BOOK.instances("here"), range(1, max_nodes + 1)):
        if 1.1 / (needed * machine.vcpus) >= 1.0:
            continue
        for mechanism, extra in itertools.product(("ara", "pf"), range(max_nodes - needed + 1)):
            if case.scheme == "cloud" and mechanism == "pf" and extra:
                continue
            extra_usd = usd_when_off(machine) if mechanism == "pf" else machine.usd_per_month
            unavailability = least_lost(needed, extra, mechanism)
            if max(unavailability, U_FLOOR) <= 1.0 - case.slo.availability:
                costs.append(needed * machine.usd_per_month + extra * extra_usd)
    return costs


def _lost_anywhere(case: Case, needed: int, extra: int, mechanism: str) -> Iterator[float]:
    """Yield the unavailability of each placement that the rules allow."""
    domains, machines = case.domains, needed + extra
    inside = [math.prod(d.count for d in domains[: n + 1]) for n in range(len(domains))]
    patterns = set()
    for where in itertools.combinations_with_replacement(range(inside[-1]), machines):
        places = tuple(
            tuple(w * inside[n] // inside[-1] for w in where) for n in range(len(domains))
        )
        zones = [[h for z, h in zip(places[0], where, strict=True) if z == number]
                 for number in range(inside[0])]  # fmt: skip
        pattern = tuple(sorted(tuple(sorted(map(zone.count, set(zone)))) for zone in zones))
        if pattern in patterns:  # the same with other names
            continue
        patterns.add(pattern)
        if all(_allowed(d, p, needed) for d, p in zip(domains, places, strict=True)):
            yield _lost(case, needed, extra, mechanism, places)


def _allowed(domain: Domain, places: tuple[int, ...], needed: int) -> bool:
    sizes = [places.count(number) for number in set(places)]
    return (
        (domain.max_per_domain is None or max(sizes) <= domain.max_per_domain)
        and (domain.min_domains is None or len(sizes) >= domain.min_domains)
        and (not domain.survive or len(places) - max(sizes) >= needed)
    )


def _lost(
    case: Case, needed: int, extra: int, mechanism: str, places: tuple[tuple[int, ...], ...]
) -> float:
    """Sum the unavailability over all patterns of dark domains and numbers of crashed machines."""
    rates, machines = own_rates(case.domains, case.rates), needed + extra
    used = [
        (d, number) for d, p in zip(case.domains, places, strict=True) for number in sorted(set(p))
    ]
    pool = mechanism == "pf" and case.scheme == "on-prem"
    unavailability = 0.0
    for dark in itertools.product((False, True), repeat=len(used)):
        dark_domains = {
            (d.name, number) for (d, number), is_dark in zip(used, dark, strict=True) if is_dark
        }
        chance = math.prod(
            q if is_dark else 1.0 - q for (d, _), is_dark in zip(used, dark, strict=True)
            for q in [d.level(case.rates.crash_per_year).dark]
        )  # fmt: skip
        lit = sum(
            all(
                (d.name, p[m]) not in dark_domains
                for d, p in zip(case.domains, places, strict=True)
            )
            for m in range(machines)
        )
        short = _short_of_pool if pool else _short_of_active
        unavailability += chance * short(needed, extra, lit, rates, case.scheme)
    if pool:
        for d, number in used:
            moved = min(places[case.domains.index(d)].count(number), needed)
            level = d.level(case.rates.crash_per_year)
            moving_s = min(moved * rates.failover_s, level.repair_s)
            unavailability += level.failures_per_year * moving_s / YEAR_S
    return unavailability


def _short_of_pool(needed: int, extra: int, lit: int, rates: FailureRates, _scheme: str) -> float:
    if lit < needed:
        return 1.0
    full, error = pool_consumed(needed, extra, rates)
    return 1.0 - math.fsum(full[: lit - needed + 1]) + error


def _short_of_active(needed: int, extra: int, lit: int, rates: FailureRates, scheme: str) -> float:
    total, share = needed + extra, 0.0
    chances = [1.0, *(availability(total - k, k, rates, mechanism="ara", scheme=scheme)
                      .unavailability_most for k in range(total)), 0.0]  # fmt: skip
    for crashed in range(total + 1):
        ways = sum(
            math.comb(lit, x) * math.comb(total - lit, crashed - x)
            for x in range(crashed + 1)
            if lit - x < needed
        )
        chance = chances[crashed] - chances[crashed + 1]  # exactly so many
        share += chance * ways / math.comb(total, crashed)
    return share


def test_surviving_a_zone_leaves_the_needed_machines_whichever_is_gone() -> None:
    plan = planned({"availability": 0.999}, domains=[{**ZONE, "survive": True}])
    (outage,) = plan.domains["one_gone"]
    web = outage["tiers"]["web"]
    assert outage["survives"]
    assert web["left"] >= web["needed"]
    sizes = plan.domains["spread"]["web"]["zone"]
    assert sum(sizes) == web["machines"]
    spread = "+".join(map(str, sizes))
    assert f"# web over domains, standbys included: zone {spread}" in plan.to_tfvars()
    assert plan.domains["levels"][0]["source"] == ZONE["source"]


def test_what_surviving_costs_is_the_cost_of_the_plan_without_it() -> None:
    zone = {**ZONE, "failures_per_year": 0.001}
    slo = {"availability": 0.99}
    surviving = planned(slo, domains=[{**zone, "survive": True}])
    without = planned(slo, domains=[zone])
    prices = {row["limit"]: row["usd_per_month"] for row in surviving.domains["without"]}
    assert prices["domains.zone.survive"] == round(without.usd_per_month, 2)
    assert surviving.usd_per_month > prices["domains.zone.survive"]
    limits = [text.partition(":")[0] for text in surviving.binding]
    assert "domains.zone.survive" in limits
    assert "none of the SLOs" not in limits


def test_a_tier_that_does_not_fit_the_rules_says_which_is_in_the_way() -> None:
    host = {**HOST, "count": 1, "failures_per_year": 0.001, "max_per_domain": 1}
    rates = {"failover_s": 3_600.0}  # a machine alone is down for 1e-4 of the time
    plan = planned({"availability": 0.99999}, domains=[host], rates=rates)
    assert not plan.feasible
    limits = {text.partition(":")[0] for text in plan.reasons}
    assert limits >= {"domains.host.max_per_domain", "domains"}


def test_the_terminal_and_json_show_the_spread_and_what_it_costs(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(ZONES)
    printed = output_of("plan", "--input", str(path))
    body = json_of("plan", "--input", str(path))
    sizes = "+".join(str(size) for size in body["domains"]["spread"]["web"]["zone"])
    (row,) = (line.split() for line in printed.splitlines() if line.startswith("zone "))
    assert row[1:3] == ["web", sizes]
    without = {row["limit"]: row["usd_per_month"] for row in body["domains"]["without"]}
    assert set(without) == {"domains.zone.survive", "domains"}
    assert f"{without['domains.zone.survive']:.2f}" in printed


@pytest.mark.parametrize(("nodes", "broken"), [(1, ["availability", "domains"]), (2, [])])
def test_a_present_fleet_that_no_place_makes_survive_breaks_the_rules(
    nodes: int, broken: list[str]
) -> None:
    tier = {"present": {"instance_type": "c5.large", "nodes": nodes}}
    zone = {**ZONE, "survive": True}
    plan = planned({"availability": 0.99}, domains=[zone], tier=tier)
    assert plan.present["breaks"] == broken


def test_copies_of_a_request_are_never_all_on_one_host() -> None:
    hosts = _domain(**{**HOST, "count": 9, "copies_apart": True})
    for replicas, most in ((1, 7), (2, 1), (3, 2)):
        assert hosts.rule.most(7, replicas) == most


@pytest.mark.parametrize(
    ("domains", "rates", "key"),
    [
        ([{**ZONE, "beta": 0.1}], {}, "domains"),
        ([{**ZONE, "failures_per_year": None}], {}, "domains"),
        ([ZONE, ZONE], {}, "name"),
        ([{**ZONE, "count": 1, "survive": True}], {}, "survive"),
        ([{**ZONE, "min_domains": 4}], {}, "min_domains"),
        ([ZONE], {"limp_per_year": 1.0, "limp_recovery_s": 60.0}, "domains"),
    ],
)
def test_domains_that_cannot_be_are_refused(
    domains: list[dict[str, Any]], rates: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as error:
        asked({"availability": 0.999}, domains=domains, rates=rates)
    assert key in error.value.place


def test_too_many_placements_name_the_line_of_their_domain_and_a_key_to_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimizer.availability.placement.PLACEMENTS_MAX", 5)
    path = tmp_path / "plan.toml"
    host = ZONES.replace('"zone"', '"host"').replace("survive", "# survive")
    path.write_text(f"{ZONES}{host[host.index('[[domains]]') : host.index('[[tiers]]')]}")
    line = path.read_text().splitlines().index('name = "host"')
    with pytest.raises(InputError) as error:
        make_plan(request_from_plan_file(read_plan(path)))
    assert error.value.place == f"{path}:{line}: domains.1"
    assert "[limits] max_nodes" in error.value.hint


def test_what_is_not_found_in_time_beside_a_plan_does_not_cost_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = {**HOST, "count": 1, "failures_per_year": 0.001, "max_per_domain": 1}
    question = asked({"availability": 0.99999}, domains=[host], rates={"failover_s": 3_600.0})
    monkeypatch.setattr("optimizer.plan.solve.model.solve", late)  # of `attempt` alone
    plan = make_plan(question).plan
    assert not plan.feasible
    assert plan.reasons
    assert {row["proved"] for row in plan.domains["without"]} == {False}
    assert {row["usd_per_month"] for row in plan.domains["without"]} == {None}
