"""The present fleet beside the plan: changes, costs, and the limits that the present fleet breaks.

The present fleet is the one that plan.toml states (`present` of a tier). Otherwise it is the one
that the run measured, with the replicas and the policy of the run's first arm. It is evaluated like
a plan: the solver chooses how many of a tier's machines count as needed, so that all limits are
kept. If no choice keeps all limits, three choices are tried, and the one that breaks the fewest
limits is reported: as many needed as availability leaves, the fewest, and all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.errors import SparecraftError, UnstableError
from core.vocabulary import Mechanism
from optimizer.fit import TierFit
from optimizer.latency.station import POLICIES
from optimizer.plan.explain.curve import AVAILABILITY
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.plan_file import Present
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import NONE, attempt
from optimizer.plan.solve.options import Option, TierDemand, usd_when_off
from optimizer.plan.solve.problem import Path, unavailability_of, violations
from optimizer.prices import Instance
from optimizer.replication import collision_probability

_SECONDS = 5.0  # for the choices of needed machines


@dataclass(frozen=True)
class _CurrentTier:
    instance: Instance
    nodes: int
    standby: int
    replicas: int
    usd_beside: float = 0.0  # a month, for disks and traffic

    @property
    def usd_per_month(self) -> float:
        off = self.standby * usd_when_off(self.instance)
        return self.nodes * self.instance.usd_per_month + off + self.usd_beside

    @property
    def text(self) -> str:
        standby = f"+{self.standby}" if self.standby else ""
        copies = f" r={self.replicas}" if self.replicas > 1 else ""
        return f"{self.nodes}{standby} {self.instance.name}{copies}"


def compare_with_present(
    request: PlanRequest, planned: Path, deadline: Deadline
) -> dict[str, object] | None:
    """Return the present fleet beside the plan, for plan.json; None if it is unknown.

    `predicted` and `keeps_all_limits` are None if the fleet could not be evaluated.
    """
    present = _present_fleet(request)
    if present is None:
        return None
    case = _with_present_policy(request)
    try:
        path, broken_limits, is_decided = _judge(case, present, deadline.within(_SECONDS))
        keeps_all, predicted = (
            not broken_limits if is_decided or not broken_limits else None,
            _predict(case, path),
        )
    except SparecraftError:  # too many ways to place its machines, or no time to look at them
        keeps_all, broken_limits, predicted = None, [], None
    usd_present = math.fsum(tier.usd_per_month for tier in present)
    planned_tiers = [_CurrentTier(o.instance, o.nodes, o.standby, o.replicas) for o in planned]
    planned_tiers = _with_other_costs(request.case, planned_tiers)
    usd_new = math.fsum(tier.usd_per_month for tier in planned_tiers)
    return {
        "usd_per_month": round(usd_present, 2),
        "usd_more": _usd_difference(usd_new, usd_present),
        "keeps_all_limits": keeps_all,
        "breaks": broken_limits,
        "policy": case.policy,
        "predicted": predicted,
        "tiers": {
            option.tier: {
                "present": old.text,
                "plan": new.text,
                "changes": old.text != new.text,
                "usd_more": _usd_difference(new.usd_per_month, old.usd_per_month),
            }
            for option, old, new in zip(planned, present, planned_tiers, strict=True)
        },
    }


def _with_present_policy(request: PlanRequest) -> Case:
    """Return the case with the present fleet's policy, if the law models it."""
    arms = request.service.arms
    stated = any(tier.spec.name in request.present for tier in request.service.tiers)
    if stated or not arms or arms[0].policy not in POLICIES:
        return request.case
    return replace(request.case, policy=arms[0].policy)


def _usd_difference(usd: float, than: float) -> float:
    """Return the difference of two displayed amounts, in whole cents; never -0.0."""
    return round(round(usd, 2) - round(than, 2), 2) or 0.0


def _present_fleet(request: PlanRequest) -> list[_CurrentTier] | None:
    fleet = []
    for number, tier in enumerate(request.service.tiers):
        stated = request.present.get(tier.spec.name)
        current = (
            _stated_tier(request.case, stated)
            if stated is not None
            else _measured_tier(request, tier, number)
        )
        if current is None:
            return None
        fleet.append(current)
    return _with_other_costs(request.case, fleet)


def _with_other_costs(case: Case, fleet: Sequence[_CurrentTier]) -> list[_CurrentTier]:
    """Return the tiers with the cost of their disks and traffic."""
    tiers, upstream = [], 1
    for demand, tier in zip(case.tiers, fleet, strict=True):
        other_costs = demand.usd_beside(upstream, tier.replicas, tier.nodes, tier.standby)
        tiers.append(replace(tier, usd_beside=sum(other_costs)))
        upstream *= tier.replicas
    return tiers


def _stated_tier(case: Case, present: Present) -> _CurrentTier:
    instance = case.book.instance(case.region, present.instance_type)
    return _CurrentTier(instance, present.nodes, present.standby, present.replicas)


def _measured_tier(request: PlanRequest, tier: TierFit, number: int) -> _CurrentTier | None:
    """Return the measured tier, on its instance type or the cheapest that is large enough."""
    spec, case = tier.spec, request.case
    if not spec.nodes or spec.cpus is None:
        return None
    types = case.book.instances(case.region)
    large = [
        instance
        for instance in types
        if instance.vcpus >= spec.cpus and instance.memory_gb * 1024 >= spec.memory_mb
    ]
    fitting = [instance for instance in types if instance.name == spec.instance_type] or large
    if not fitting:
        return None
    arms = request.service.arms
    replicas = arms[0].replicas[number] if arms else 1
    cheapest = min(fitting, key=lambda instance: instance.usd_per_month)
    return _CurrentTier(cheapest, spec.nodes, spec.standby, replicas)


def _judge(
    case: Case, fleet: Sequence[_CurrentTier], deadline: Deadline
) -> tuple[Path, list[str], bool]:
    """Return the fleet with its needed machines, the broken limits, and True if that is certain.

    It is certain if no other count of needed machines keeps the limits.
    """
    ways, budget = _list_ways(case, fleet, deadline), 1.0 - (case.slo.availability or 0.0)
    placeable_ways = [[way for way in tier if way.unavailability < 1.0] for tier in ways]
    solution = NONE
    if all(placeable_ways):
        solution = attempt(case.problem_with(tuple(placeable_ways)), None, deadline)
    if solution.path is not None:
        return solution.path, [], True
    rows_in_budget = [
        [i for i, way in enumerate(tier) if way.unavailability <= budget] for tier in ways
    ]
    paths = [
        tuple(tier[max(rows, default=0)] for tier, rows in zip(ways, rows_in_budget, strict=True)),
        tuple(tier[0] for tier in ways),
        tuple(tier[-1] for tier in ways),
    ]
    path, broken = min(((p, _broken_limits(case, p)) for p in paths), key=lambda pair: len(pair[1]))
    return path, broken, solution.proved


def _broken_limits(case: Case, path: Path) -> list[str]:
    try:
        broken = violations(case.problem_with(()), path)
    except UnstableError:
        broken = ["utilisation"]
    out_of_place = case.domains and any(option.unavailability >= 1.0 for option in path)
    return [*broken, "domains"] if out_of_place else broken


def _list_ways(case: Case, fleet: Sequence[_CurrentTier], deadline: Deadline) -> list[list[Option]]:
    """Return the options of each tier, from the fewest machines that count as needed to all."""
    ways, upstream = [], 1
    for demand, current in zip(case.tiers, fleet, strict=True):
        pool = current.standby and demand.state.spare_serves
        first = (
            current.nodes
            if pool
            else min(current.nodes, _fewest_needed(case, demand, current, upstream))
        )
        options = []
        for needed in range(first, current.nodes + 1):
            deadline.check()
            options.append(_build_option(case, demand, current, upstream, needed))
        ways.append(options)
        upstream *= current.replicas
    return ways


def _fewest_needed(case: Case, demand: TierDemand, current: _CurrentTier, upstream: int) -> int:
    load = demand.load(current.instance, upstream, current.replicas)
    room = case.limits.max_utilisation - demand.written(current.instance, upstream)
    return current.nodes if room <= 0.0 else max(1, current.replicas, math.ceil(load / room))


def _build_option(
    case: Case, demand: TierDemand, current: _CurrentTier, upstream: int, needed: int
) -> Option:
    pool = current.standby if demand.state.spare_serves else 0
    mechanism = Mechanism.pf if pool else Mechanism.ara
    extra = pool or current.nodes - needed
    written = demand.written(current.instance, upstream)
    option = Option(
        tier=demand.name,
        upstream=upstream,
        replicas=current.replicas,
        instance=current.instance,
        needed=needed,
        mechanism=mechanism,
        extra=extra,
        usd_per_month=current.usd_per_month,
        unavailability=1.0,
        utilisation=demand.load(current.instance, upstream, current.replicas) / needed + written,
        collision=collision_probability(needed, upstream, current.replicas),
        written=written,
    )
    return replace(option, unavailability=case.unavailability(option))


def _predict(case: Case, path: Path) -> dict[str, float | None]:
    return {
        "availability": AVAILABILITY.stated(unavailability_of(path)),
        "utilisation": max(option.utilisation for option in path),
        **case.percentiles_ms(path),
    }
