"""The plan beside the fleet that is there: what changes, what it costs, whether that one does.

The present fleet is what plan.toml states (`present` of a tier), else the one that the run measured
with its first arm's replicas, and then that arm's policy counts, not the plan's. It is looked at as
a plan is: as many of a tier's machines count as needed as let all limits be kept, which is a
problem for the solver. Where no way of counting does, the fewest limits are named that break in one
of three: with as many needed as availability leaves, with the fewest, and with all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import SparecraftError, UnstableError
from core.vocabulary import Mechanism
from optimizer.latency.station import POLICIES
from optimizer.plan.explain.curve import AVAILABILITY
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import NONE, attempt
from optimizer.plan.solve.options import Option, TierDemand, usd_when_off
from optimizer.plan.solve.problem import Path, unavailability_of, violations
from optimizer.replication import collision_probability

if TYPE_CHECKING:
    from optimizer.fit import TierFit
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.plan_file import Present
    from optimizer.plan.inputs.request import PlanRequest
    from optimizer.prices import Instance

_SECONDS = 5.0  # for the ways to count needed machines


@dataclass(frozen=True)
class _CurrentTier:
    """One tier as it is."""

    instance: Instance
    nodes: int
    standby: int
    replicas: int
    usd_beside: float = 0.0  # a month, of disks and traffic

    @property
    def usd_per_month(self) -> float:
        off = self.standby * usd_when_off(self.instance)
        return self.nodes * self.instance.usd_per_month + off + self.usd_beside

    @property
    def text(self) -> str:
        standby = f"+{self.standby}" if self.standby else ""
        copies = f" r={self.replicas}" if self.replicas > 1 else ""
        return f"{self.nodes}{standby} {self.instance.name}{copies}"


def against_present(
    asked: PlanRequest, planned: Path, deadline: Deadline
) -> dict[str, object] | None:
    """Return the present fleet beside the plan, for plan.json; None if it is unknown.

    `predicted` and `keeps_all_limits` are None if the fleet could not be evaluated.
    """
    there = _present(asked)
    if there is None:
        return None
    case = _under_its_policy(asked)
    try:
        path, broken, is_decided = _judged(case, there, deadline.within(_SECONDS))
        kept, predicted = not broken if is_decided or not broken else None, _predicted(case, path)
    except SparecraftError:  # too many ways to place its machines, or no time to look at them
        kept, broken, predicted = None, [], None
    usd = math.fsum(one.usd_per_month for one in there)
    new = [_CurrentTier(o.instance, o.nodes, o.standby, o.replicas) for o in planned]
    new = _with_other_costs(asked.case, new)
    usd_new = math.fsum(one.usd_per_month for one in new)
    return {
        "usd_per_month": round(usd, 2),
        "usd_more": _more(usd_new, usd),
        "keeps_all_limits": kept,
        "breaks": broken,
        "policy": case.policy,
        "predicted": predicted,
        "tiers": {
            option.tier: {
                "present": old.text,
                "plan": one.text,
                "changes": old.text != one.text,
                "usd_more": _more(one.usd_per_month, old.usd_per_month),
            }
            for option, old, one in zip(planned, there, new, strict=True)
        },
    }


def _under_its_policy(asked: PlanRequest) -> Case:
    """Return the case with the policy of the present fleet, if the law has it."""
    arms = asked.service.arms
    stated = any(tier.spec.name in asked.present for tier in asked.service.tiers)
    if stated or not arms or arms[0].policy not in POLICIES:
        return asked.case
    return replace(asked.case, policy=arms[0].policy)


def _more(usd: float, than: float) -> float:
    """Return the difference of two displayed amounts, in whole cents; never -0.0."""
    return round(round(usd, 2) - round(than, 2), 2) or 0.0


def _present(asked: PlanRequest) -> list[_CurrentTier] | None:
    found = []
    for number, tier in enumerate(asked.service.tiers):
        stated = asked.present.get(tier.spec.name)
        one = _stated(asked.case, stated) if stated is not None else _measured(asked, tier, number)
        if one is None:
            return None
        found.append(one)
    return _with_other_costs(asked.case, found)


def _with_other_costs(case: Case, fleet: Sequence[_CurrentTier]) -> list[_CurrentTier]:
    """Return the tiers with what their disks and their traffic cost."""
    found, upstream = [], 1
    for demand, one in zip(case.tiers, fleet, strict=True):
        beside = demand.usd_beside(upstream, one.replicas, one.nodes, one.standby)
        found.append(replace(one, usd_beside=sum(beside)))
        upstream *= one.replicas
    return found


def _stated(case: Case, present: Present) -> _CurrentTier:
    instance = case.book.instance(case.region, present.instance_type)
    return _CurrentTier(instance, present.nodes, present.standby, present.replicas)


def _measured(asked: PlanRequest, tier: TierFit, number: int) -> _CurrentTier | None:
    """Return its own instance type, else the cheapest with its cores and memory."""
    spec, case = tier.spec, asked.case
    if not spec.nodes or spec.cpus is None:
        return None
    types = case.book.instances(case.region)
    large = [
        one for one in types if one.vcpus >= spec.cpus and one.memory_gb * 1024 >= spec.memory_mb
    ]
    fitting = [one for one in types if one.name == spec.instance_type] or large
    if not fitting:
        return None
    arms = asked.service.arms
    replicas = arms[0].replicas[number] if arms else 1
    cheapest = min(fitting, key=lambda one: one.usd_per_month)
    return _CurrentTier(cheapest, spec.nodes, spec.standby, replicas)


def _judged(
    case: Case, there: Sequence[_CurrentTier], deadline: Deadline
) -> tuple[Path, list[str], bool]:
    """Return the fleet with its needed machines, the limits that it breaks, and the certainty of
    that.

    It is certain if no other count of needed machines keeps the limits.
    """
    ways, budget = _ways(case, there, deadline), 1.0 - (case.slo.availability or 0.0)
    placed = [[way for way in tier if way.unavailability < 1.0] for tier in ways]
    found = NONE
    if all(placed):
        limit_s, clock = deadline.left_s(), deadline.clock
        found = attempt(case.limited(tuple(placed)), limit_s=limit_s, clock=clock)
    if found.path is not None:
        return found.path, [], True
    within = [[i for i, one in enumerate(tier) if one.unavailability <= budget] for tier in ways]
    tried = [
        tuple(tier[max(kept, default=0)] for tier, kept in zip(ways, within, strict=True)),
        tuple(tier[0] for tier in ways),
        tuple(tier[-1] for tier in ways),
    ]
    path, broken = min(((p, _broken(case, p)) for p in tried), key=lambda one: len(one[1]))
    return path, broken, found.proved


def _broken(case: Case, path: Path) -> list[str]:
    try:
        broken = violations(case.limited(()), path)
    except UnstableError:
        broken = ["utilisation"]
    out_of_place = case.domains and any(option.unavailability >= 1.0 for option in path)
    return [*broken, "domains"] if out_of_place else broken


def _ways(case: Case, there: Sequence[_CurrentTier], deadline: Deadline) -> list[list[Option]]:
    """Return the options of each tier, from the fewest machines that count as needed to all."""
    found, upstream = [], 1
    for demand, one in zip(case.tiers, there, strict=True):
        pool = one.standby and demand.state.spare_serves
        first = one.nodes if pool else min(one.nodes, _least(case, demand, one, upstream))
        options = []
        for needed in range(first, one.nodes + 1):
            deadline.check()
            options.append(_option(case, demand, one, upstream, needed))
        found.append(options)
        upstream *= one.replicas
    return found


def _least(case: Case, demand: TierDemand, one: _CurrentTier, upstream: int) -> int:
    load = demand.load(one.instance, upstream, one.replicas)
    room = case.limits.max_utilisation - demand.written(one.instance, upstream)
    return one.nodes if room <= 0.0 else max(1, one.replicas, math.ceil(load / room))


def _option(
    case: Case, demand: TierDemand, one: _CurrentTier, upstream: int, needed: int
) -> Option:
    pool = one.standby if demand.state.spare_serves else 0
    mechanism = Mechanism.pf if pool else Mechanism.ara
    extra = pool or one.nodes - needed
    written = demand.written(one.instance, upstream)
    found = Option(
        tier=demand.name,
        upstream=upstream,
        replicas=one.replicas,
        instance=one.instance,
        needed=needed,
        mechanism=mechanism,
        extra=extra,
        usd_per_month=one.usd_per_month,
        unavailability=1.0,
        utilisation=demand.load(one.instance, upstream, one.replicas) / needed + written,
        collision=collision_probability(needed, upstream, one.replicas),
        written=written,
    )
    return replace(found, unavailability=case.unavailability(found))


def _predicted(case: Case, path: Path) -> dict[str, float | None]:
    return {
        "availability": AVAILABILITY.stated(unavailability_of(path)),
        "utilisation": max(option.utilisation for option in path),
        **case.percentiles_ms(path),
    }
