"""Tiers with state: writes, data, primaries, disks, and spares that may not serve."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.config_file import parse_tfvars
from core.errors import InputError
from core.tolerances import U_FLOOR
from core.units import YEAR_S
from optimizer.availability import FailureRates, availability
from optimizer.fit import ServiceFit, fit, read_results
from optimizer.fit.spec import NOT_READ
from optimizer.plan.inputs.request import PlanRequest, request_for_service
from optimizer.plan.outcome import Plan
from optimizer.plan.planner import make_plan
from optimizer.plan.solve.options import Limits
from optimizer.prices import load_prices
from optimizer.tests.one_tier import request_of

TYPES = ["c5.large", "c5.xlarge", "m5.large"]
ZONE = {"name": "zone", "count": 4, "failures_per_year": 0.1, "repair_s": 60.0, "source": "a"}
RATE, WORK_S, REGION = 300.0, 0.004, "us-east-1"


pytestmark = pytest.mark.usefixtures("unexplained")


def asked(target: float | None = 0.999, **tier: Any) -> PlanRequest:
    """Build the request of one database in the cloud, or as `scheme` says, and other `values`."""
    values = {"scheme": tier.pop("scheme", "cloud"), "arrival_per_s": RATE,
              "slo": {"availability": target} if target else {"p99_ms": 1000.0},
              "limits": {"max_nodes": 7, "max_replicas": 1},
              "rates": {"crash_per_year": 6.0, "failover_s": 900.0},
              "prices": {"book": "ec2", "region": REGION}, **tier.pop("values", {})}  # fmt: skip
    db = {"name": "db", "role": "redis", "processing_s": WORK_S, "memory_mb": 1024}
    values["tiers"] = [{**db, "instance_types": TYPES, **tier}]
    return request_of(values)


def cheapest(target: float, scheme: str, tier: dict[str, Any]) -> float:
    """Return USD a month of the cheapest fleet: loop over all fleets, with separate formulas."""
    book, best = load_prices(), math.inf
    share, data_gb = tier.get("writes", 0.0), tier.get("data_gb", 0.0)
    share += tier.get("reads_of_one", 0.0)
    state, promote_s = tier.get("state"), float(tier.get("promote_s", 0.0))
    copies = state in (None, "none", "copied") and data_gb
    joins_s = 900.0 + (1024.0 * data_gb / 125.0 if copies else 0.0)
    rates = FailureRates(crash_per_year=6.0, failover_s=joins_s)
    tier_scheme = "on-prem" if state == "own" and data_gb else scheme
    if tier.get("primary") and not promote_s:
        promote_s = joins_s
    for name in TYPES:
        instance = book.instance(REGION, name)
        memory_gb = 1.0 + 0.25 + (data_gb if tier.get("data_in") == "memory" else 0.0)
        if instance.memory_gb < memory_gb:
            continue
        for needed in range(1, 8):
            utilisation = (
                RATE * WORK_S / instance.sustained_cores * ((1.0 - share) / needed + share)
            )
            for mechanism in ("ara", "pf"):
                if mechanism == "pf" and (tier_scheme == "cloud" or state == "own"):
                    continue
                for extra in range(8 - needed):
                    prediction = availability(
                        needed, extra, rates, mechanism=mechanism, scheme=tier_scheme
                    )
                    u = prediction.unavailability_most
                    if tier.get("primary"):
                        busy = 6.0 * promote_s / YEAR_S
                        u += busy / (1.0 + busy)
                    if (
                        state == "copied"
                        and data_gb
                        and (tier_scheme == "cloud" or mechanism == "pf")
                    ):
                        u += _lost(needed + (extra if mechanism == "ara" else 0), joins_s)
                    if utilisation <= 0.7 and max(u, U_FLOOR) <= 1.0 - target:
                        best = min(best, (needed + extra) * instance.usd_per_month)
    return best


def _lost(machines: int, joins_s: float) -> float:
    """Return lambda / 2 times the steady-state probability that all machines but one are down."""
    ratio, weights = 6.0 * joins_s / YEAR_S, [1.0]
    for down in range(machines - 1):
        weights.append(weights[-1] * (machines - down) * ratio)
    return min(1.0, 3.0 * weights[-1] / sum(weights))


TIERS: list[dict[str, Any]] = [
    {"writes": 0.1},
    {"writes": 0.25},
    {"writes": 0.15, "reads_of_one": 0.1},
    {"writes": 0.1, "primary": True, "promote_s": 30.0},
    {"writes": 0.3, "primary": True, "promote_s": 3.0, "state": "copied", "data_gb": 200.0},
    {"writes": 0.05, "primary": True, "state": "volume", "data_gb": 200.0},
    {"state": "copied", "data_gb": 500.0},
    {"state": "copied", "data_gb": 3.0, "data_in": "memory"},
    {"state": "own", "data_gb": 10.0},
    {"state": "none", "data_gb": 300.0},
    {"state": "volume", "data_gb": 300.0, "disk_gb": 400.0},
]


@pytest.mark.parametrize("scheme", ["cloud", "on-prem"])
@pytest.mark.parametrize("tier", TIERS)
def test_the_plan_is_the_cheapest_of_all_fleets_that_keep_their_data(
    tier: dict[str, Any], scheme: str
) -> None:
    for target in (0.9, 0.9999, 0.9999999):
        plan = make_plan(asked(target, scheme=scheme, **tier)).plan
        best = cheapest(target, scheme, tier)
        if plan.feasible:
            assert plan.usd_per_month == pytest.approx(best, abs=0.01)
            assert plan.predicted["availability"] >= target
        else:
            assert best == math.inf


def test_writes_and_data_bound_a_tier_whatever_its_machines_and_the_reason_says_so() -> None:
    plan = make_plan(asked(None, writes=0.99, processing_s=0.02)).plan  # 5.9 cores of writes alone
    assert plan.feasible is False
    assert any(text.startswith("tier db: writes") for text in plan.reasons)
    large = make_plan(asked(data_gb=64.0, data_in="memory", state="copied")).plan
    assert large.feasible is False
    assert any("memory_mb" in text for text in large.reasons)
    body = make_plan(asked(None, writes=0.2)).plan.to_json_dict()["state"]["db"]
    assert body["write_share"] == 0.2
    assert body["carries_per_s_most"] == pytest.approx(RATE * 0.7 / body["writes_use"])


def test_a_degraded_tier_has_all_its_writes_on_the_machines_that_are_left() -> None:
    slo = {"availability": 0.9, "degraded": {"nodes_down": 1}}
    plan = make_plan(asked(None, writes=0.2, values={"slo": slo})).plan
    (tier,) = plan.tiers.values()
    utilisation = plan.predicted["degraded"]["while"]["db"]["utilisation"]
    cores = load_prices().instance(REGION, tier.instance_type).sustained_cores
    left = min(tier.needed, tier.nodes - 1)
    assert utilisation == pytest.approx(RATE * WORK_S / cores * (0.8 / left + 0.2))


def test_a_new_machine_serves_after_the_data_is_there_and_tfvars_has_room_for_it() -> None:
    plan = make_plan(asked(state="copied", data_gb=3.0, data_in="memory", nic_mbps=800)).plan
    body = plan.to_json_dict()
    assert body["state"]["db"]["copy_s"] == pytest.approx(3.0 * 1024.0 / 100.0)
    assert body["state"]["db"]["serves_again_s"] == pytest.approx(900.0 + 30.72)
    assert f"memory_mb = {1024 + 3 * 1024}" in body["tfvars"]
    assert any("copies 3 GB" in text for text in plan.assumptions)


DB_REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("primary", {"primary": True}),  # without writes
    ("primary", {"primary": True, "writes": 0.0}),
    ("primary", {"primary": True, "writes": 0.1}),  # and nobody is promoted
    ("primary", {"primary": True, "writes": 0.1, "state": "copied", "data_gb": 5.0}),
    ("promote_s", {"writes": 0.1, "promote_s": 5.0}),
    ("data_in", {"data_in": "memory"}),
    ("disk_gb", {"disk_gb": 50.0}),
    ("disk_gb", {"data_gb": 51.0, "disk_gb": 50.0}),
    ("iops", {"iops": 100.0}),
    ("disk_usd_per_gb_month", {"values": {"prices": {"disk_usd_per_gb_month": 0.1}}}),
    ("traffic_usd_per_gb", {"values": {"prices": {"traffic_usd_per_gb": 0.02}}}),
    ("traffic_usd_per_gb",
     {"values": {"prices": {"traffic_usd_per_gb": 0.02, "crossing": 0.5}}}),  # of no kbit
    ("crossing", {"values": {"prices": {"crossing": 0.5}}}),
    ("data_in", {"data_gb": 5.0, "data_in": "memory", "state": "volume"}),
    ("mechanisms", {"state": "own", "mechanisms": ["pf"]}),
    ("writes", {"writes": 1.5}),
    ("reads_of_one", {"writes": 0.6, "reads_of_one": 0.5}),
    ("data_gb", {"data_gb": -1.0}),
    ("state", {"state": "lost"}),
    ("data_gb", {"state": "copied", "data_gb": 5.0, "values": {"rates": {"common_cause": 0.1}}}),
    ("data_gb", {"state": "copied", "data_gb": 5.0, "values": {"domains": [ZONE]}}),
    ("schedule",
     {"writes": 0.1, "values": {"load": {"day": [1.0] * 24}, "schedule": {"start_s": 60.0}}}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "tier"), DB_REFUSED)
def test_what_a_tier_cannot_be_is_refused_at_its_key(key: str, tier: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        asked(**tier)
    assert key in error.value.place


def test_no_schedule_moves_machines_that_have_data() -> None:
    day = {"load": {"day": [1.5] * 12 + [0.5] * 12}}
    assert make_plan(asked(values=day)).plan.schedule is not None
    assert make_plan(asked(values=day, writes=0.05)).plan.schedule is None


PRICED = {"disk_usd_per_gb_month": 0.1, "iops_usd_per_month": 0.01}


@pytest.mark.parametrize("scheme", ["cloud", "on-prem"])
def test_each_fleet_costs_its_machines_its_disks_and_what_crosses_zones(scheme: str) -> None:
    zones = {"traffic_usd_per_gb": 0.02, "crossing": 0.5}
    values = {"prices": {"book": "ec2", "region": REGION, **PRICED, **zones},
              "limits": {"max_nodes": 6, "max_replicas": 2}, "load": {"peak": 1.5}}  # fmt: skip
    tier = {"disk_gb": 200.0, "iops": 3000.0, "kbit_per_copy": 16.0, "writes": 0.1}
    tier["reads_of_one"] = 0.2
    options = asked(scheme=scheme, values=values, **tier).case.problem().options[0]
    assert len(options) > 50
    gb = RATE * 730.0 * 3600.0 * 16.0 / 8e6  # of the mean, one copy of each request
    for option in options:
        machines = option.nodes * option.instance.usd_per_month
        machines += option.standby * option.instance.usd_per_month
        disks = (option.nodes + option.standby) * (200.0 * 0.1 + 3000.0 * 0.01)
        crosses = gb * (0.7 * option.replicas + 0.2 + 0.1 * option.nodes) * 0.5 * 0.02
        assert option.usd_per_month == pytest.approx(machines + disks + crosses)


def test_a_plan_adds_up_with_its_disks_and_its_traffic_and_so_does_the_present_fleet() -> None:
    zones = {"traffic_usd_per_gb": 0.02, "crossing": 0.5}
    values = {"prices": {"book": "ec2", "region": REGION, **PRICED, **zones}}
    tier: dict[str, Any] = {"disk_gb": 200.0, "kbit_per_copy": 16.0, "iops": 1000.0}
    plan = make_plan(asked(values=values, **tier)).plan
    database = plan.tiers["db"]
    parts = [database.usd_active_per_month, database.usd_standby_per_month]
    parts += [database.usd_disks_per_month, database.usd_traffic_per_month]
    assert None not in parts
    assert sum(part or 0.0 for part in parts) == pytest.approx(database.usd_per_month, abs=0.03)
    present = {
        "instance_type": database.instance_type,
        "nodes": database.nodes,
        "standby": database.spares,
    }
    repeated = make_plan(asked(values=values, present=present, **tier)).plan
    assert repeated.present["usd_per_month"] == pytest.approx(plan.usd_per_month, abs=0.01)
    assert any("arbiters is not in the cost" in text for text in plan.assumptions)


def test_zones_say_how_much_crosses_where_nobody_else_does() -> None:
    prices = {"book": "ec2", "region": REGION, "traffic_usd_per_gb": 0.02}
    with_crossing = {**prices, "crossing": 0.75}
    cases = [
        asked(values={"prices": table, "domains": [ZONE]}, kbit_per_copy=16.0).case
        for table in (prices, with_crossing)
    ]
    assert cases[0].tiers[0].traffic_usd == cases[1].tiers[0].traffic_usd > 0.0


SLO = {"availability": 0.9999, "p95_ms": 500.0}


def service(run: Path, state: str | None) -> ServiceFit:
    """Fit the run after setting the state of the database's role."""
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["spec"]["roles"]["mariadb"] |= {"state": state}
    file.write_text(json.dumps(manifest))
    return fit(read_results(run))


def planned(fitted: ServiceFit) -> Plan:
    return make_plan(request_for_service(fitted, SLO, scheme="on-prem")).plan


def test_spares_are_planned_where_a_machine_keeps_nothing_and_active_ones_where_it_does(
    run: Path,
) -> None:
    stateless, stateful = (planned(service(run, state)) for state in ("none", "own"))
    assert stateless.tiers["db"].mechanism == "pf"
    assert stateless.tiers["db"].spares > 0
    assert stateful.tiers["db"].mechanism == "ara"
    assert stateful.tiers["db"].spares == 0
    assert any("tier db" in text and "state" in text for text in stateful.warnings)
    assert not any("tier db" in text and "state" in text for text in stateless.warnings)


def test_a_spare_that_is_there_is_not_counted_where_it_cannot_serve(run: Path) -> None:
    availabilities = {}
    for state in ("none", "own"):
        fitted = service(run, state)
        with_spare = tuple(
            replace(tier, spec=replace(tier.spec, standby=1 if tier.spec.name == "db" else 0))
            for tier in fitted.tiers
        )
        present = planned(replace(fitted, tiers=with_spare)).present
        availabilities[state] = present["predicted"]["availability"]
        usd = present["usd_per_month"]
    without = planned(service(run, "own")).present
    assert availabilities["own"] == without["predicted"]["availability"]
    assert availabilities["none"] != availabilities["own"]
    assert usd > without["usd_per_month"]  # it is paid for all the same


def test_spares_of_a_role_that_does_not_say_its_state_are_warned_of(run: Path) -> None:
    plan = planned(service(run, None))
    assert plan.tiers["db"].spares > 0
    assert any("tier db" in text and "state" in text for text in plan.warnings)


@pytest.mark.parametrize(
    ("role", "arbiters", "most"),
    [({"protocol": "mysql"}, ["web", "db"], 2), ({"protocol": "tcp"}, ["web", "db"], 1),
     ({"protocol": "mysql"}, ["web"], 1)],
)  # fmt: skip
def test_only_reads_that_an_arbiter_tells_from_writes_are_planned_with_copies(
    run: Path, role: dict[str, str], arbiters: list[str], most: int
) -> None:
    """A plan of r = 2 for PostgreSQL, behind tcp, could not be applied."""
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["spec"]["roles"]["mariadb"] |= role
    manifest["spec"]["fleet"]["arbiters"] = {tier: {} for tier in arbiters}
    file.write_text(json.dumps(manifest))
    limits = Limits(max_nodes=3, max_replicas=2)
    request = request_for_service(fit(read_results(run)), {"p95_ms": 900.0}, limits=limits)
    options = request.case.problem().options[1]
    assert {option.replicas for option in options} == set(range(1, most + 1))


def test_the_protocols_that_are_not_read_are_the_arbiters() -> None:
    contract = json.loads((Path(__file__).parents[4] / "contracts" / "policies.json").read_text())
    assert {p["name"] for p in contract["protocols"] if not p["reads"]} == set(NOT_READ)


PROMOTION = {"role": "watcher", "state": "copied", "takes_s": 12.0}


def promoted(run: Path, *, is_called: bool = True, **promotion: object) -> ServiceFit:
    """Fit the run after adding three machines that promote the database's, if it calls them.

    promotion: keys in place of PROMOTION's.
    """
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    spec, tier = manifest["spec"], manifest["spec"]["fleet"]["tiers"]
    spec["roles"]["mariadb"] |= {"state": "own", "promotion": {**PROMOTION, **promotion}}
    if is_called:
        tier["watchers"] = {**tier["db"], "role": "watcher", "cpus": 0.1, "memory_mb": 64}
        tier["db"]["calls"] = ["watchers"]
        manifest["fleet"]["machines"] += [
            {**manifest["fleet"]["machines"][0], "name": f"watchers-{n}", "tier": "watchers",
             "role": "watcher", "standby": False} for n in (1, 2, 3)
        ]  # fmt: skip
    file.write_text(json.dumps(manifest))
    return fit(read_results(run))


def test_a_tier_that_another_one_promotes_has_a_primary_and_spares_that_serve(run: Path) -> None:
    plan = planned(promoted(run))
    db = plan.tiers["db"]
    assert (db.mechanism, db.spares > 0) == ("pf", True)
    assert db.nodes >= 2, "one is promoted for the other"
    assert not any("tier db" in text and "state" in text for text in plan.warnings)
    body = plan.to_json_dict()
    assert body["state"]["db"]["kept"] == "copied"
    assert body["state"]["db"]["takes_over_s"] == 12.0
    assert set(body["tiers"]) == {"web", "db"}
    values = parse_tfvars(body["tfvars"], Path("plan.json")).values
    assert values["tiers"]["watchers"]["nodes"] == 3
    assert values["tiers"]["db"]["calls"] == ["watchers"]
    assert set(values["arbiters"]) == {"web", "db"}


def test_a_tier_that_calls_nobody_who_promotes_it_gets_no_spare_and_a_warning(run: Path) -> None:
    plan = planned(promoted(run, is_called=False))
    assert (plan.tiers["db"].mechanism, plan.tiers["db"].spares) == ("ara", 0)
    assert any("tier db" in text and "promotes" in text for text in plan.warnings)


def test_a_tier_whose_own_machines_promote_has_spares_and_as_many_machines_as_it_needs(
    run: Path,
) -> None:
    plan = planned(promoted(run, is_called=False, role=None, nodes_min=3))
    assert (plan.tiers["db"].mechanism, plan.tiers["db"].spares > 0) == ("pf", True)
    assert plan.tiers["db"].nodes >= 3
    assert plan.to_json_dict()["state"]["db"]["takes_over_s"] == 12.0


def test_where_any_loss_stops_writes_each_active_machine_counts(run: Path) -> None:
    shares = {}
    for loss_of in ("primary", "any"):
        plan = planned(promoted(run, nodes_min=3, loss_of=loss_of))
        shares[loss_of] = plan.to_json_dict()["state"]["db"]["without_primary"]
    assert shares["any"] == pytest.approx(plan.tiers["db"].nodes * shares["primary"], rel=1e-4)


def test_plan_toml_overrides_what_the_role_says_of_promotion(run: Path) -> None:
    promoted(run)
    values = {"slo": SLO, "scheme": "on-prem"}
    for tier, expected in (
        ({"min_nodes": 3}, (True, 12.0, 3)),
        ({"primary": True, "promote_s": 40.0, "writes": 0.1}, (True, 40.0, 2)),
        ({"primary": False}, (False, None, 2)),
    ):
        request = request_of({**values, "tiers": [{"name": "db", **tier}]}, run)
        demand = next(demand for demand in request.case.tiers if demand.name == "db")
        state = demand.state
        assert (state.primary, state.promote_s, demand.min_nodes) == expected
    with pytest.raises(InputError) as error:
        request_of({**values, "domains": [ZONE]}, run)
    assert error.value.place == "plan.toml: domains"


def stated(run: Path, of_role: str, **tier: object) -> PlanRequest:
    """Build the request about the run and a plan.toml with these keys of the database."""
    service(run, of_role)
    values = {"slo": SLO, "scheme": "on-prem", "tiers": [{"name": "db", **tier}]}
    return request_of(values, run)


def test_a_plan_that_asks_for_spares_that_cannot_serve_is_refused(run: Path) -> None:
    with pytest.raises(InputError) as error:
        stated(run, "own", mechanisms=["pf"])
    assert error.value.place == "plan.toml: tiers.0.mechanisms"
    assert error.value.got == "pf"


def test_data_that_outlives_its_machine_lets_a_spare_serve_whatever_the_role_says(
    run: Path,
) -> None:
    request = stated(run, "own", state="volume", mechanisms=["pf"])
    tier = make_plan(request).plan.tiers["db"]
    assert tier.mechanism == "pf"
    assert tier.spares > 0
