"""Fleets in order of cost, the test of each, and the cheapest that a simulation keeps."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from optimizer.commands.plan_text import predicted_table
from optimizer.fit import fit, read_results
from optimizer.plan.explain.warnings import warn_of_decision, warn_of_load
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.request import PlanRequest, request_for_service
from optimizer.plan.planner import make_plan
from optimizer.plan.simulate import Decided, bands, decide, not_simulated, search
from optimizer.plan.simulate.bands import (
    BAND_MOST,
    STEP,
    bands_downwards,
    bands_upwards,
    sample_band,
    score,
)
from optimizer.plan.simulate.candidates import fleets_by_cost, kind_of
from optimizer.plan.simulate.redrawn import LATER_SPREAD, Redrawn, SimulatedTier
from optimizer.plan.simulate.search import idle_cores
from optimizer.plan.simulate.sequential import (
    BROKEN_ERROR,
    FLEETS_MOST,
    KEPT_ERROR,
    LOOKS,
    KeepingTest,
    Verdict,
)
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Limits
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path as Fleet
from optimizer.plan.solve.problem import Problem, violations
from optimizer.simulation.arm import Arm, visits
from optimizer.simulation.fidelity import TAIL_SPREAD, FittedLaw, ValueCheck
from optimizer.simulation.law import Law, call_s

TEST = KeepingTest(0.9)
SLO = {"availability": 0.99, "p95_ms": 2_000.0, "p99_ms": 4_000.0}


@pytest.fixture(scope="module")
def asked(run_dir: Path) -> PlanRequest:
    limits = Limits(max_nodes=4, max_replicas=2)
    return request_for_service(fit(read_results(run_dir)), SLO, scheme="cloud", limits=limits)


def test_no_fleet_is_kept_or_broken_by_chance_more_often_than_is_said() -> None:
    """At the probability itself, the tail of each verdict at each look is below its share."""
    for runs in LOOKS:
        kept = [k for k in range(runs + 1) if TEST.verdict(k, runs) is Verdict.kept]
        broken = [k for k in range(runs + 1) if TEST.verdict(k, runs) is Verdict.broken]
        tails = [
            sum(math.comb(runs, k) * 0.9**k * 0.1 ** (runs - k) for k in ks)
            for ks in (kept, broken)
        ]
        assert tails[0] <= KEPT_ERROR / FLEETS_MOST / 4
        assert tails[1] <= BROKEN_ERROR / FLEETS_MOST / len(LOOKS) * (1 + 1e-9)


def test_a_good_fleet_can_be_shown_to_be_good_and_a_bad_one_soon_to_be_bad() -> None:
    assert TEST.verdict(LOOKS[-1], LOOKS[-1]) is Verdict.kept
    assert TEST.verdict(0, LOOKS[0]) is Verdict.broken
    assert TEST.verdict(288, LOOKS[-1]) is Verdict.undecided  # 0.9 itself
    assert TEST.futile(17, 20)
    assert not TEST.futile(18, 20)
    assert not TEST.futile(0, 5)


def test_fleets_come_in_order_of_cost_and_none_is_left_out(asked: PlanRequest) -> None:
    problem = asked.case.problem()
    paths = list(itertools.islice(fleets_by_cost(problem, Deadline(math.inf)), 60))
    usd = [sum(o.usd_per_month for o in path) for path in paths]
    assert usd == sorted(usd)
    assert len({kind_of(path) for path in paths}) == len(paths)
    unlimited = replace(problem, latency_ms_max={})
    assert not any(violations(unlimited, path) for path in paths)
    least = _cheapest_by_kind(unlimited, usd[-1])
    assert {kind: round(cost, 6) for kind, cost in least.items() if cost < usd[-1] - 1e-6} == {
        kind_of(path): round(cost, 6)
        for path, cost in zip(paths, usd, strict=True)
        if cost < usd[-1] - 1e-6
    }


def _cheapest_by_kind(problem: Problem, most_usd: float) -> dict[object, float]:
    """Return the least cost of each kind of fleet, up to `most_usd`, by plain loops."""
    least: dict[object, float] = {}
    front, back = problem.options
    for upper in front:
        for lower in back:
            usd = upper.usd_per_month + lower.usd_per_month
            if (
                usd > most_usd
                or lower.upstream != upper.replicas
                or violations(problem, (upper, lower))
            ):
                continue
            kind = kind_of((upper, lower))
            least[kind] = min(usd, least.get(kind, math.inf))
    return least


def _fitted(run_dir: Path, how: str = "sharp") -> tuple[list[Arm], FittedLaw]:
    results = read_results(run_dir)
    service = fit(results)
    arms = [Arm(results, service, name) for name in results.arms]
    law = Law(0.02, 0.3, 0.02, {("web", "interference.cpu"): 0.3}, None, {}, {})
    spreads = {"work_s": 0.05, "spread": 0.1, "speed web, interference.cpu": 0.1}
    factor = 20.0 if how == "vague" else 2.0
    check = ValueCheck(
        *("p95_ms", 900.0 if how == "missed" else 100.0, 100.0),
        *(100.0 / factor, 100.0 * factor),
        counts=True,
        factor=factor,
    )
    return arms, FittedLaw(law, spreads, {"baseline": (check,)})


def _fleet(arms: list[Arm], *tiers: tuple[int, float]) -> list[SimulatedTier]:
    """Return tiers of these servers and cores, as a run's first tier is set; else of 2 and 1."""
    settings = arms[0].results.settings("baseline", "web")
    return [SimulatedTier(*tier, settings) for tier in tiers or ((2, 1.0), (2, 1.0))]


def test_every_fleet_meets_the_same_arrivals_figures_and_neighbours(run_dir: Path) -> None:
    arms, fitted = _fitted(run_dir)
    world = Redrawn(arms, fitted, per_s=10.0, pages=200)
    small = world.scenario(_fleet(arms), 3)
    large = world.scenario(_fleet(arms, (5, 2.0), (3, 1.0)), 3)
    reseeded = world.scenario(_fleet(arms), 4)
    assert small["arrivals"] == large["arrivals"]
    assert small["seed"] == large["seed"] != reseeded["seed"]  # of the arrivals, among others
    assert small["tiers"][0]["work"] == large["tiers"][0]["work"] != reseeded["tiers"][0]["work"]
    small_faults, large_faults = (
        [(fault["server"], fault["at_s"], fault["for_s"]) for fault in fleet["tiers"][0]["faults"]]
        for fleet in (small, large)
    )
    assert small_faults == [fault for fault in large_faults if fault[0] < 2]
    assert (large["tiers"][0]["servers"], large["tiers"][0]["cores"]) == (5, 2.0)


def test_a_neighbour_takes_less_of_a_machine_with_a_higher_cap(run_dir: Path) -> None:
    arms, fitted = _fitted(run_dir)
    front = arms[0].service.tiers[0]
    capped = replace(front, spec=replace(front.spec, cpus=0.35))
    arms[0].service = replace(arms[0].service, tiers=(capped, *arms[0].service.tiers[1:]))
    law = replace(fitted.law, slowed={("web", "interference.cpu"): 0.04})
    world = Redrawn(arms, replace(fitted, law=law), per_s=10.0, pages=200)

    def drawn(figure: str, cores: float) -> list[float]:
        tiers = _fleet(arms, (2, cores), (2, 1.0))
        events = [world.scenario(tiers, n)["tiers"][0]["faults"] for n in range(60)]
        return [float(e[0][figure]) for e in events if e]  # type: ignore[literal-required]

    at_cap, above_cap = drawn("jobs", 0.35), drawn("jobs", 1.0)
    assert set(at_cap) == {arms[0].crowd_threads}
    assert np.median(above_cap) == pytest.approx(arms[0].crowd_threads, rel=0.5)
    assert np.std(above_cap) > 0.0  # what was not measured is drawn
    assert min(drawn("wait_s", 0.35)) > max(drawn("wait_s", 1.0))


def test_a_simulated_host_is_as_fast_as_in_one_of_the_runs_blocks(run_dir: Path) -> None:
    arms, fitted = _fitted(run_dir)
    blocks = [{"core_speed": 10.0}, {"core_speed": 30.0}, {"core_speed": 20.0}]
    fleet = _fleet(arms)

    def query_s() -> list[Any]:
        world = Redrawn(arms, fitted, per_s=10.0, pages=50)
        tiers = [world.scenario(fleet, number)["tiers"][1] for number in range(40)]
        return [tier["work"]["mean_s"] for tier in tiers]

    usual_s = query_s()
    manifest = {**arms[0].results.manifest, "host": {"blocks": blocks}}
    arms[0].results = replace(arms[0].results, manifest=manifest)
    ratios = {round(was_s / now_s, 6) for was_s, now_s in zip(usual_s, query_s(), strict=True)}
    assert ratios == {0.5, 1.0, 1.5}


def test_a_later_run_takes_other_cpu_times_than_the_one_it_was_planned_from(run_dir: Path) -> None:
    arms, fitted = _fitted(run_dir)
    fleet = _fleet(arms)
    world = Redrawn(arms, fitted, per_s=10.0, pages=50)
    draws: list[Any] = [world.scenario(fleet, number)["tiers"] for number in range(300)]
    web, database = (
        np.log([[tier["work"]["mean_s"] for tier in tiers] for tiers in draws]).T
        - np.log([fitted.law.work_s, call_s(arms[0].service, 1)])[:, None]
    )
    assert np.std(database) == pytest.approx(LATER_SPREAD, rel=0.1)
    assert np.mean(database) == pytest.approx(0.0, abs=3.0 * LATER_SPREAD / math.sqrt(300))
    assert np.corrcoef(web, database)[0, 1] > 0.9  # one host carries both


def test_a_planned_run_has_the_simulators_own_error_the_same_for_every_fleet(run_dir: Path) -> None:
    arms, fitted = _fitted(run_dir)
    world = Redrawn(arms, fitted, per_s=10.0, pages=50)
    report: Any = {"each_s": [0.1, 0.2, 0.3, 0.4, 0.5, None]}
    runs = [world.pages_s(report, number) for number in range(1, 301)]
    assert all((run[:3] == [0.1, 0.2, 0.3]).all() for run in runs)  # up to the median, 0.35
    assert {run[5] for run in runs} == {world.time_out_s}  # a failed page counts with it
    beyond = np.log([(run[4] - 0.35) / 0.15 for run in runs])
    assert np.std(beyond) == pytest.approx(TAIL_SPREAD, rel=0.1)
    assert np.mean(beyond) == pytest.approx(0.0, abs=3.0 * TAIL_SPREAD / math.sqrt(300))
    second_world = Redrawn(arms, fitted, per_s=20.0, pages=80)
    assert all((second_world.pages_s(report, n + 1) == run).all() for n, run in enumerate(runs[:9]))


def test_what_disturbs_two_machines_at_once_does_so_in_a_planned_fleet(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimizer.plan.simulate.redrawn.LATER_SPREAD", 0.0)
    arms, fitted = _fitted(run_dir)
    send, receive = "interference.iperf", "interference.iperf_server"
    [window, *_] = arms[0].disturbed
    names = arms[0].servers("web")
    for arm in arms:
        arm.disturbed = [
            replace(window, kind=kind, machine=names[at % 2], start_s=start_s, end_s=start_s + 3.0)
            for start_s in np.arange(arm.spans[0][0], arm.spans[0][1] - 3.0, 6.0)
            for at, kind in enumerate((send, receive))
        ]
    law = replace(fitted.law, slowed={("web", send): 0.5, ("web", receive): 0.4})
    world = Redrawn(arms, replace(fitted, law=law), per_s=10.0, pages=3_000)
    drawn_law = replace(fitted, law=law).draw_law(np.random.default_rng([7, 1]))
    arm = arms[0]
    visited = visits(arm.service, 0, drawn_law, arm.crowd_threads, arm.burst_cores)

    def events(servers: int, kind: str) -> list[tuple[float, float, int]]:
        fleet = _fleet(arms, (servers, 1.0), (2, 1.0))
        faults = world.scenario(fleet, 7)["tiers"][0]["faults"]
        [effect] = visited.effects(kind, drawn_law.speed("web", kind))
        return [
            (fault["at_s"], fault["for_s"], fault["server"])
            for fault in faults
            if fault["wait_s"] == effect["wait_s"]
        ]

    sent, received = events(2, send), events(2, receive)
    assert len(sent) > 3
    assert sorted((at_s, for_s, 1 - server) for at_s, for_s, server in sent) == sorted(received)
    assert {server for *_, server in events(5, receive)} == set(range(5))
    assert events(1, send)
    assert not events(1, receive)


@pytest.mark.parametrize("how", ["missed", "vague"])
def test_where_the_simulator_misses_the_run_or_any_run_would_do_nothing_is_claimed(
    asked: PlanRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    results, problem = read_results(run_dir), asked.case.problem()
    path = solve(problem).path
    monkeypatch.setattr(search, "_SHOWN", 5)
    monkeypatch.setattr(search, "cross_validate", lambda *_: _fitted(run_dir, how)[1])
    decision = decide(asked.case, problem, path, results, asked.service, clock=lambda: 0.0)
    assert (decision.verdict, decision.path) == ("undecided", None)
    assert "p95_ms" in decision.body["reason"]
    proposal = decision.body["more"]
    if how == "missed":
        assert proposal is None  # a longer run does not mend a simulator that misses
    else:
        arms = [Arm(results, asked.service, name) for name in results.arms]
        blocks = sum(len(arm.spans) for arm in arms) / len(arms)
        assert proposal["blocks_of_each_arm"] == math.ceil(3.669 * blocks)
        assert proposal["minutes"] >= 1
    assert decision.predicted is not None
    law: Any = {"p95_ms": 1.0, "p99_ms": 2.0, "evidence": "model"}
    assert decision.outlook(law) | law == decision.outlook(law)  # the law's figures stand
    assert warn_of_decision(decision.body)


def test_the_cheapest_fleet_that_keeps_the_slo_is_found_and_cheaper_ones_are_broken(
    asked: PlanRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, problem = read_results(run_dir), asked.case.problem()
    path = solve(problem).path
    monkeypatch.setattr(search, "PAGES", 100)
    monkeypatch.setattr(search, "cross_validate", lambda *_: _fitted(run_dir)[1])
    decision = decide(asked.case, problem, path, results, asked.service, clock=lambda: 0.0)
    assert decision.verdict == "kept"
    usd = sum(o.usd_per_month for o in decision.path)
    fleets = decision.body["fleets"]
    assert not any(f["verdict"] == "kept" for f in fleets if f["usd_per_month"] < usd - 0.01)
    interval = decision.predicted["with_faults"]["p95_ms"]
    assert interval["low"] <= interval["point"] <= interval["high"] <= SLO["p95_ms"]
    law: Any = {"p95_ms": 1.0, "p99_ms": 2.0, "evidence": "model"}
    assert decision.refused is None  # none is cheaper
    body = decision.outlook(law)
    assert (body["evidence"], body["law"]["p95_ms"]) == ("simulated", 1.0)
    assert body["p95_ms"] == decision.predicted["without_faults"]["p95_ms"]["point"]


def test_the_next_cheaper_fleet_that_is_refused_comes_with_a_prediction_and_a_fleet(
    asked: PlanRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, fitted = read_results(run_dir), _fitted(run_dir)[1]
    slower = replace(fitted, law=replace(fitted.law, work_s=0.3, whole_s=0.3))
    monkeypatch.setattr(search, "PAGES", 100)
    monkeypatch.setattr(search, "cross_validate", lambda *_: slower)

    def simulator(case: Case, problem: Problem, path: Any) -> Decided:
        return decide(case, problem, path, results, asked.service, clock=lambda: 0.0)

    body = make_plan(asked, simulator=simulator).plan.to_json_dict()
    refused = body["refused"]
    assert 0.0 < refused["usd_per_month"] < body["usd_per_month"]
    assert refused["simulation"]["verdict"] == "refused"
    assert refused["simulation"]["kept"] < 0.9 * refused["simulation"]["runs"]
    assert refused["predicted"]["distribution"]["kept_share"] < 0.9
    assert f"{refused['usd_per_month']:.2f} USD/month" in refused["tfvars"]
    assert any("next cheaper fleet" in reason for reason in body["binding"])
    assert not any(
        refused["usd_per_month"] < f["usd_per_month"] < body["usd_per_month"] - 0.01
        for f in body["simulation"]["fleets"]
        if TEST.seldom(f["kept"], f["runs"]) and f["runs"] >= 80
    )


def test_a_fleet_whose_short_runs_were_hopeless_can_be_the_refused_one(
    asked: PlanRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, fitted, problem = read_results(run_dir), _fitted(run_dir)[1], asked.case.problem()
    slower = replace(fitted, law=replace(fitted.law, work_s=0.3, whole_s=0.3))
    monkeypatch.setattr(search, "PAGES", 100)
    monkeypatch.setattr(search, "cross_validate", lambda *_: slower)

    def decided() -> Decided:
        path = solve(problem).path
        return decide(asked.case, problem, path, results, asked.service, clock=lambda: 0.0)

    enough_usd = cost(decided().path or ())
    screened = search._Search._screen

    def none_of_the_cheaper(self: Any, band: Any) -> list[Fleet]:
        paths = screened(self, band)
        for kind, (path, points) in self._screened.items():
            hopeless = 9.0 if cost(path) < enough_usd - 0.01 else points
            self._screened[kind] = (path, hopeless)
        return [path for path in paths if cost(path) >= enough_usd - 0.01]

    monkeypatch.setattr(search._Search, "_screen", none_of_the_cheaper)
    decision = decided()
    assert all(fleet["usd_per_month"] >= enough_usd - 0.01 for fleet in decision.body["fleets"])
    assert decision.refused is not None
    assert cost(decision.refused.path) < enough_usd
    assert TEST.seldom(decision.refused.kept, decision.refused.runs)


@pytest.mark.parametrize(("kept", "seldom"), [(287, False), (276, True), (31, True)])
def test_a_fleet_that_keeps_the_slo_nearly_as_often_as_asked_is_not_refused(
    kept: int, seldom: bool
) -> None:
    assert TEST.seldom(kept, 320) == seldom


def test_cheaper_fleets_that_nobody_looked_at_are_counted(
    asked: PlanRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, problem = read_results(run_dir), asked.case.problem()
    monkeypatch.setattr(search, "PAGES", 100)
    monkeypatch.setattr(bands, "BAND_MOST", 1)
    monkeypatch.setattr(search, "cross_validate", lambda *_: _fitted(run_dir)[1])
    paths = list(fleets_by_cost(problem, Deadline(math.inf)))
    enough_usd = 2.5 * cost(paths[0])

    def tested(_: object, fleet: Any) -> Verdict:
        return Verdict.kept if cost(fleet.path) >= enough_usd else Verdict.broken

    monkeypatch.setattr(search._Search, "_test_fleet", tested)
    decision = decide(asked.case, problem, paths[0], results, asked.service, clock=lambda: 0.0)
    cheaper = sum(cost(path) < cost(decision.path) - 0.01 for path in paths)
    assert cheaper > decision.body["screened"]
    assert decision.body["not_looked_at"] >= cheaper - decision.body["screened"]


def test_an_interval_of_twice_the_width_asks_for_a_run_of_four_times_the_length() -> None:
    law = Law(0.02, 0.3, 0.02, {}, None, {}, {})

    def fitted(factor: float, *, counts: bool = True) -> FittedLaw:
        check = ValueCheck("p95_ms", 100.0, 100.0, 50.0, 200.0, counts=counts, factor=factor)
        return FittedLaw(law, {}, {"baseline": (check,)})

    assert fitted(16.0).times_as_long == pytest.approx(4.0)
    assert fitted(3.0).times_as_long == 1.0
    assert fitted(16.0, counts=False).times_as_long == 1.0
    assert fitted(math.inf).times_as_long == math.inf


def _of_cost(usd: float) -> Fleet:
    return cast(Fleet, (SimpleNamespace(usd_per_month=usd),))


def test_bands_of_cost_leave_no_fleet_out() -> None:
    paths = [_of_cost(0.1 * n) for n in range(10, 300)]
    below: list[Fleet] = []
    up = list(bands_upwards(iter(paths), 10.0, below))
    assert [path for band in (below, *up) for path in band] == paths
    assert max(map(cost, below)) < 10.0
    down = list(bands_downwards(paths))
    assert sorted((path for band in down for path in band), key=cost) == paths
    for band in (*up, *down):
        costs = [cost(path) for path in band]
        assert max(costs) <= STEP * min(costs) + 1e-9
    assert [max(map(cost, band)) for band in down] == sorted(
        (max(map(cost, band)) for band in down), reverse=True
    )


def test_of_a_large_band_fleets_spread_over_it_are_looked_at() -> None:
    band = [_of_cost(n) for n in range(1, 1_001)]
    sample = sample_band(band)
    assert len(sample) == BAND_MOST
    assert sample[0] == band[0]
    assert cost(sample[-1]) > 950
    assert sample_band(band[:5]) == band[:5]


def test_a_fleet_is_scored_by_the_limit_that_it_breaks_most() -> None:
    pages_ms = np.array([100.0] * 94 + [700.0] * 4 + [2_000.0] * 2)
    assert score(pages_ms, {95: 600.0}) == pytest.approx(0.06 / 0.05)
    assert score(pages_ms, {95: 600.0, 99: 1_000.0}) == pytest.approx(2.0)
    assert score(pages_ms, {}) == 0.0


def test_what_was_not_simulated_says_why_and_unasked_says_nothing() -> None:
    assert warn_of_decision(not_simulated("no program").body)
    assert warn_of_decision(not_simulated("").body) == ()
    law: Any = {"p95_ms": 1.0}
    assert not_simulated("no program").outlook(law)["p95_ms"] == 1.0


def test_few_machines_under_neighbours_above_sixty_percent_are_warned_of(
    asked: PlanRequest,
) -> None:
    path = solve(asked.case.problem()).path
    latency = replace(asked.case.tiers[0].latency, interference_share=0.3, gamma=0.5)
    tiers = (replace(asked.case.tiers[0], latency=latency), *asked.case.tiers[1:])
    busy = (replace(path[0], utilisation=0.62, needed=2), *path[1:])
    idle = (replace(path[0], utilisation=0.58, needed=2), *path[1:])
    assert len(warn_of_load(tiers[:1], busy[:1])) == 1
    assert warn_of_load(tiers[:1], idle[:1]) == ()


def test_drawn_figures_scatter_about_the_fitted_ones(run_dir: Path) -> None:
    _, fitted = _fitted(run_dir)
    works_s = [fitted.draw_law(np.random.default_rng(seed)).work_s for seed in range(200)]
    assert np.std(np.log(works_s)) == pytest.approx(0.05, rel=0.25)
    assert np.median(works_s) == pytest.approx(0.02, rel=0.02)


def test_beside_simulated_figures_stands_no_probability_of_the_law(run_dir: Path) -> None:
    slo = {"availability": 0.99, "p95_ms": 2_000.0}
    request = request_for_service(fit(read_results(run_dir)), slo, scheme="cloud")
    body = make_plan(request).plan.to_json_dict()
    by_law = [str(column.header) for column in predicted_table(body).columns]
    body["predicted"]["evidence"] = "simulated"
    simulated = [str(column.header) for column in predicted_table(body).columns]
    assert len(simulated) == len(by_law) - 1


def test_idle_machines_count_with_what_they_use_each(run_dir: Path) -> None:
    service = fit(read_results(run_dir))
    assert idle_cores(service) == {}
    nodes = {tier.spec.name: tier.spec.nodes for tier in service.tiers}
    calibration = {"tiers": {name: {"idle_cores": 0.02 * count} for name, count in nodes.items()}}
    assert idle_cores(replace(service, calibration=calibration)) == pytest.approx(
        dict.fromkeys(nodes, 0.02)
    )
