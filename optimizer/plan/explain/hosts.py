"""The cheapest set of own servers for a fleet that keeps the limits, beside the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.errors import PlannerError
from optimizer.plan.solve.hosts import LIMIT_S, Packed, packed

if TYPE_CHECKING:
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.hosts import Host
    from optimizer.plan.solve.deadline import Deadline
    from optimizer.plan.solve.problem import Problem

_NONE = "no fleet that keeps the limits fits on these servers, one machine of a tier on each"
_CUT = "not decided in time: no fleet was found that fits, and none was proved not to be there"


def hosts_of(
    case: Case, problem: Problem, hosts: Sequence[Host], deadline: Deadline
) -> dict[str, object] | None:
    """`hosts` of plan.json; None if none are stated."""
    if not hosts:
        return None
    servers = [server for one in hosts for server in one.servers]
    own = deadline.within(LIMIT_S)
    memory = [tier.memory_mb for tier in case.tiers]
    try:
        found = packed(problem, memory, servers, limit_s=own.left_s(), clock=own.clock)
    except PlannerError:
        found = Packed(None, proved=False)
    body: dict[str, object] = {
        "usd_per_month": None if found.usd_per_month is None else round(found.usd_per_month, 2),
        "proved": found.proved,
        "solves": found.solves,
    }
    if found.path is None:
        return {**body, "reasons": [_NONE if found.proved else _CUT]}
    names = [tier.name for tier in case.tiers]
    numbers: dict[str, int] = {}
    standing = []
    for server, held in zip(servers, found.places, strict=True):
        numbers[server.kind] = numbers.get(server.kind, 0) + 1
        if held:
            standing.append(
                {
                    "host": f"{server.kind}-{numbers[server.kind]}",
                    "tiers": [names[t] for t, _ in held],
                    "cores": sum(v for _, v in held) / server.cores,
                    "memory": sum(memory[t] for t, _ in held) / server.memory_mb,
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
        for option in found.path
    }
    return {**body, "servers": standing, "tiers": tiers, "reasons": []}
