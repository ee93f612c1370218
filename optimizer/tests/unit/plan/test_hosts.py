"""Servers that tiers share: fleet and places together, against every fleet and every packing."""

from __future__ import annotations

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.planner import make_plan
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.highs import Highs
from optimizer.plan.solve.hosts import LIMIT_S, Server, packed
from optimizer.plan.solve.problem import Path as Fleet
from optimizer.plan.solve.problem import Problem, violations
from optimizer.tests.one_tier import request_of

SMALL = {"name": "small", "count": 3, "cores": 2.0, "memory_mb": 3072, "usd_per_month": 20.0}
LARGE = {"name": "large", "count": 3, "cores": 4.0, "memory_mb": 4096, "usd_per_month": 33.0}


def asked(
    slo: dict[str, float], hosts: list[dict[str, Any]], *, max_nodes: int = 4, **values: Any
) -> PlanRequest:
    """Web, app and database on slices of one or two cores."""
    tiers = [
        {"name": "web", "processing_s": 0.02, "memory_mb": 512},
        {"name": "app", "processing_s": 0.03, "memory_mb": 1024},
        {"name": "db", "processing_s": 0.01, "memory_mb": 2048, "requests_per_copy": 2.0},
    ]
    types = {"role": "x", "instance_types": ["slice-1", "slice-2"]}
    body = {"scheme": "on-prem", "arrival_per_s": 40.0, "slo": slo,
            "limits": {"max_nodes": max_nodes, "max_replicas": 1},
            "tiers": [{**types, **tier} for tier in tiers], "hosts": hosts, **values}  # fmt: skip
    return request_of(body)


def servers_of(hosts: list[dict[str, Any]]) -> list[Server]:
    return [
        Server(host["name"], host["cores"], host["memory_mb"], host["usd_per_month"])
        for host in hosts
        for _ in range(host["count"])
    ]


def fits(fleet: Fleet, memory: list[float], servers: list[Server]) -> bool:
    """Try every way to place the tiers' machines, one tier after the other."""
    count = [o.nodes + o.standby for o in fleet]
    size = [o.instance.vcpus for o in fleet]

    @functools.cache
    def rest(tier: int, room: tuple[tuple[float, float], ...]) -> bool:
        if tier == len(fleet):
            return True
        able = [h for h, (c, m) in enumerate(room) if c >= size[tier] and m >= memory[tier]]
        for chosen in itertools.combinations(able, count[tier]):
            room_left = tuple(
                (c - size[tier], m - memory[tier]) if h in chosen else (c, m)
                for h, (c, m) in enumerate(room)
            )
            if rest(tier + 1, room_left):
                return True
        return False

    return rest(0, tuple((server.cores, server.memory_mb) for server in servers))


def least(problem: Problem, memory: list[float], servers: list[Server]) -> float:
    """Return USD a month of the cheapest set of servers that holds a fleet within the limits."""
    fleets: dict[tuple[tuple[int, float], ...], Fleet] = {}
    for fleet in itertools.product(*problem.options):
        key = tuple((o.nodes + o.standby, float(o.instance.vcpus)) for o in fleet)
        if key not in fleets and not violations(problem, fleet):
            fleets[key] = fleet
    kinds = [list(group) for _, group in itertools.groupby(servers, lambda server: server.kind)]
    sets = [
        [server for kind, n in zip(kinds, counts, strict=True) for server in kind[:n]]
        for counts in itertools.product(*(range(len(kind) + 1) for kind in kinds))
    ]
    for subset in sorted(sets, key=lambda s: sum(server.usd_per_month for server in s)):
        if any(fits(fleet, memory, subset) for fleet in fleets.values()):
            return sum(server.usd_per_month for server in subset)
    return math.inf


@pytest.mark.parametrize("slo", [{"availability": 0.5}, {"availability": 0.9}, {"p99_ms": 250.0}])
@pytest.mark.parametrize("hosts", [[SMALL, LARGE], [LARGE], [SMALL]])
def test_the_servers_are_the_least_that_hold_any_fleet_which_keeps_the_limits(
    slo: dict[str, float], hosts: list[dict[str, Any]]
) -> None:
    case = asked(slo, hosts, max_nodes=3).case
    problem, memory = case.problem(), [tier.memory_mb for tier in case.tiers]
    servers = servers_of(hosts)
    packing = packed(problem, memory, servers, Deadline(LIMIT_S))
    assert packing.proved
    best = least(problem, memory, servers)
    assert (packing.usd_per_month or math.inf) == pytest.approx(best)
    if packing.path is not None:
        assert not violations(problem, packing.path)


def test_what_presolve_calls_infeasible_is_asked_again_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Presolve errs where a row is met with equality: `test_model.py` has such a program."""
    hosts = [SMALL, LARGE]
    case = asked({"availability": 0.9}, hosts).case
    memory = [tier.memory_mb for tier in case.tiers]
    arguments = (case.problem(), memory, servers_of(hosts), Deadline(math.inf))
    usd, optimum = packed(*arguments).usd_per_month, Highs.optimum

    def wrong(solver: Highs, model: Any, limit_s: float, *, presolve: str) -> Any:
        return None if presolve == "on" else optimum(solver, model, limit_s, presolve=presolve)

    monkeypatch.setattr(Highs, "optimum", wrong)
    assert packed(*arguments).usd_per_month == usd is not None


BOOK = """
as_of = "2026-01-01"
source = "x"
currency = "USD"
[shared]
{shared}
[servers.big]
purchase_usd = 6000
years = 5
watts = 200
rack_units = 1
cores = 8
memory_gb = 16
source = "x"
as_of = "2026-01-01"
[slices]
thin = {{ server = "big", cores = 1, memory_gb = 4 }}
wide = {{ server = "big", cores = 2, memory_gb = 4 }}
"""
SHARED = ("usd_per_kwh", "usd_per_rack_unit_month", "staff_usd_per_hour",
          "staff_hours_per_server_month", "pue")  # fmt: skip


def test_a_smaller_machine_at_the_price_of_a_larger_one_is_placed_where_that_does_not_fit(
    tmp_path: Path,
) -> None:
    facts = (f'{key} = {{ value = 1, source = "x", as_of = "2026-01-01" }}' for key in SHARED)
    (tmp_path / "book.toml").write_text(BOOK.format(shared="\n".join(facts)))
    tier = {"name": "web", "role": "x", "processing_s": 0.01, "memory_mb": 512}
    host = {"name": "h", "count": 4, "cores": 1.0, "memory_mb": 2048, "usd_per_month": 10.0}
    question = asked(
        {"availability": 0.5}, [host], tiers=[tier], prices={"book": str(tmp_path / "book.toml")}
    )
    hosts = make_plan(question).plan.hosts
    assert hosts["tiers"]["web"]["instance_type"] == "thin"
    assert hosts["usd_per_month"] == 10.0 * hosts["tiers"]["web"]["nodes"]


def test_plan_json_and_tfvars_say_which_machines_share_which_server() -> None:
    plan = make_plan(asked({"availability": 0.9}, [SMALL, LARGE])).plan.to_json_dict()
    body = plan["hosts"]
    for server in body["servers"]:
        assert f"# {server['host']}: {', '.join(server['tiers'])}\n" in plan["tfvars"]
    assert body["proved"]
    machines = [name for server in body["servers"] for name in server["tiers"]]
    for name, tier in body["tiers"].items():
        assert machines.count(name) == tier["nodes"] + tier["spares"]
    assert any(len(server["tiers"]) > 1 for server in body["servers"])
    assert all(server["cores"] <= 1.0 and server["memory"] <= 1.0 for server in body["servers"])
    prices = {"small": 20.0, "large": 33.0}
    assert body["usd_per_month"] == sum(prices[server["host"][:5]] for server in body["servers"])


def test_where_nothing_fits_it_is_said_and_the_plan_stands() -> None:
    tiny = {**SMALL, "count": 1, "cores": 1.0}
    plan = make_plan(asked({"availability": 0.9}, [tiny])).plan
    assert plan.feasible
    assert plan.hosts["usd_per_month"] is None
    assert plan.hosts["proved"]
    assert plan.hosts["reasons"]


@pytest.mark.parametrize(
    ("key", "hosts", "values"),
    [
        ("hosts", [SMALL], {"scheme": "cloud"}),
        ("hosts.1.name", [SMALL, SMALL], {}),
        ("hosts", [{**SMALL, "count": 40}, {**LARGE, "count": 40}], {}),
        ("hosts.0.count", [{**SMALL, "count": 0}], {}),
        ("hosts.0.cores", [{**SMALL, "cores": -1.0}], {}),
        ("hosts", [SMALL],
         {"domains": [{"name": "zone", "count": 2, "failures_per_year": 1.0, "repair_s": 60.0,
                       "source": "here"}]}),
    ],
)  # fmt: skip
def test_servers_that_cannot_be_are_refused(
    key: str, hosts: list[dict[str, Any]], values: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as error:
        asked({"availability": 0.9}, hosts, **values)
    assert error.value.place.endswith(key)
