"""The cheapest set of own servers for a fleet that keeps the limits, beside the plan."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import PlannerError
from optimizer.plan.explain.undecided import report_undecided
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.hosts import Host
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.hosts import LIMIT_S, Packed, packed
from optimizer.plan.solve.problem import Problem

_NONE = "no fleet that keeps the limits fits on these servers, one machine of a tier on each"


def hosts_of(
    case: Case, problem: Problem, hosts: Sequence[Host], deadline: Deadline
) -> dict[str, object] | None:
    """Return `hosts` of plan.json; None if no hosts are stated."""
    if not hosts:
        return None
    servers = [server for host in hosts for server in host.servers]
    memory, search_deadline = [tier.memory_mb for tier in case.tiers], deadline.within(LIMIT_S)
    try:
        packing = packed(problem, memory, servers, search_deadline)
    except PlannerError:
        packing = Packed(None, proved=False)
    body: dict[str, object] = {
        "usd_per_month": None if packing.usd_per_month is None else round(packing.usd_per_month, 2),
        "proved": packing.proved,
        "solves": packing.solves,
    }
    if packing.path is None:
        cut = report_undecided("fleet was found that fits", search_deadline.seconds)
        return {**body, "reasons": [_NONE if packing.proved else cut]}
    names = [tier.name for tier in case.tiers]
    numbers: dict[str, int] = {}
    used_servers = []
    for server, slices in zip(servers, packing.places, strict=True):
        numbers[server.kind] = numbers.get(server.kind, 0) + 1
        if slices:
            used_servers.append(
                {
                    "host": f"{server.kind}-{numbers[server.kind]}",
                    "tiers": [names[t] for t, _ in slices],
                    "cores": sum(v for _, v in slices) / server.cores,
                    "memory": sum(memory[t] for t, _ in slices) / server.memory_mb,
                }
            )
    tiers = {
        option.tier: {
            "instance_type": option.instance.type_name,
            "nodes": option.nodes,
            "spares": option.standby,
            "mechanism": option.mechanism,
            "replicas": option.replicas,
        }
        for option in packing.path
    }
    return {**body, "servers": used_servers, "tiers": tiers, "reasons": []}
