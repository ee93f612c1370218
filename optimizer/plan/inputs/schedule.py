"""[schedule] of plan.toml: machines that come and go with the hours of [load] day or week.

With a day or a week the plan for the busiest hour has a schedule beside it: the machines that run
in each hour, and how each is paid for, at the least cost. With the plan's replicas it keeps
utilisation, collisions and latency in every hour, and availability on average over the hours.
Machines are rented, so the scheme is `cloud`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from core.config_file import Positive, Problem, Strict, refusal
from core.errors import MOST, UnstableError
from core.vocabulary import Mechanism, Scheme
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.domains import covers_of
from optimizer.plan.inputs.load import Load
from optimizer.plan.solve.options import Option, TierDemand, with_room
from optimizer.plan.solve.problem import Path
from optimizer.plan.solve.schedule import HourlyProblem, HourlyTier, Period, Quota, Sizes
from optimizer.prices import Instance
from optimizer.replication import collision_probability

if TYPE_CHECKING:
    from optimizer.plan.inputs.plan_file import Declared


class DeclaredQuota(Strict):
    """An account's bound on machines of these types that run at the same time, in all tiers."""

    instance_types: Annotated[list[str], Field(min_length=1)]
    vcpus: Positive | None = None
    machines: Annotated[int, Field(ge=0, le=MOST)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> DeclaredQuota:
        if (self.vcpus is None) == (self.machines is None):
            got = "neither" if self.vcpus is None else "both"
            raise refusal("vcpus or machines, one of them", got=got)
        return self

    def quota(self) -> Quota:
        """Return the quota for the schedule's problem."""
        most = float(self.machines or 0) if self.vcpus is None else self.vcpus
        return Quota(frozenset(self.instance_types), most, self.vcpus is not None)


class DeclaredSchedule(Strict):
    """Start-up and run times of machines, and the objective."""

    start_s: Annotated[float, Field(ge=0, le=6 * 3600)] = 0.0
    run_hours_min: Annotated[int, Field(ge=1, le=24)] = 1
    objective: Literal["usd", "nodes", "energy"] = "usd"
    watts_per_vcpu: Positive | None = None
    front: bool = False
    quotas: list[DeclaredQuota] = Field(default_factory=list)

    @model_validator(mode="after")
    def _can_be_measured(self) -> DeclaredSchedule:
        if self.objective == "energy" and self.watts_per_vcpu is None:
            raise refusal(
                "the power of a vCPU [W], your own figure: no book of rented machines has it",
                got="nothing",
                key="watts_per_vcpu",
                hint="State it beside objective = energy.",
            )
        return self


def problems_of(stated: Declared) -> Iterator[Problem]:
    """Yield the problems of a [schedule] without hours, or with limits that it cannot keep."""
    if stated.schedule is None:
        return
    if stated.load is None or not stated.load.hours:
        yield Problem(("schedule",), "it beside [load] day or week", "neither", "State the hours.")
    unkept: dict[tuple[str, ...], object] = {
        ("domains",): stated.domains,
        ("slo", "degraded"): stated.slo.degraded,
        ("slo", "performability"): stated.slo.performability,
    }
    for key, limit in unkept.items():
        if limit:
            text = "it without [schedule], which does not keep it hour by hour"
            yield Problem(key, text, "both", "Leave one of them out.")


@dataclass(frozen=True)
class Hours:
    """The hourly problem, and the period that each hour belongs to."""

    problem: HourlyProblem
    period_of: tuple[int, ...]
    shares: tuple[float, ...]  # each hour's load over the mean


def hourly_problem(
    case: Case, load: Load, stated: DeclaredSchedule | None, path: Path
) -> Hours | None:
    """Return the schedule's problem with the replicas of `path`; None if there is no schedule.

    Machines with data do not come and go with the hours.
    """
    if not load.hours or case.scheme != Scheme.cloud or case.domains or case.users is not None:
        return None
    if case.slo.degraded is not None or any(tier.has_state for tier in case.tiers):
        return None
    declared = stated or DeclaredSchedule()
    is_tied = bool(declared.quotas) or declared.start_s > 0 or declared.run_hours_min > 1
    shares = [share / load.highest for share in load.hours]
    if is_tied:
        periods, period_of = [Period(share, 1) for share in shares], list(range(len(shares)))
    else:
        levels = sorted(set(shares), reverse=True)
        periods = [Period(level, shares.count(level)) for level in levels]
        period_of = [levels.index(share) for share in shares]
    target = case.slo.availability
    problem = HourlyProblem(
        tiers=tuple(
            _hourly_tier(case, demand, option)
            for demand, option in zip(case.tiers, path, strict=True)
        ),
        periods=tuple(periods),
        utilisation_max=case.limits.max_utilisation,
        unavailability_max=None if target is None else 1.0 - target,
        slow=_latency_check(case, [period.load for period in periods], path),
        quotas=tuple(quota.quota() for quota in declared.quotas),
        starting_h=declared.start_s / 3600.0,
        run_h_min=declared.run_hours_min,
        watts_per_vcpu=declared.watts_per_vcpu or 0.0,
    )
    return Hours(problem, tuple(period_of), tuple(load.hours))


def _hourly_tier(case: Case, demand: TierDemand, option: Option) -> HourlyTier:
    level, replicas = option.upstream, option.replicas
    machines = tuple(with_room(case.book.instances(case.region), demand, case.headroom_mb))
    rate = demand.request_per_s * level * replicas
    most = case.limits.max_nodes
    counts = (
        n
        for n in range(replicas, most + 1)
        if collision_probability(n, level, replicas) <= case.limits.max_collision
    )
    return HourlyTier(
        name=demand.name,
        machines=machines,
        carried_per_s=tuple(rate / demand.load(machine, level, replicas) for machine in machines),
        request_per_s=rate,
        least=next(counts, most + 1),
        most=most,
        lost=_unavailability(case, demand, machines),
        fewest=demand.min_nodes,
    )


def _unavailability(
    case: Case, demand: TierDemand, machines: Sequence[Instance]
) -> Callable[[int, int, float], float]:
    """Return the unavailability by (needed, extra, interruptions a year), all machines active."""
    covers = covers_of((), case.rates, case.scheme, case.limits, 0, demand)
    by_rate = {machine.interruptions_per_year: machine for machine in machines}

    @cache
    def sizes(needed: int, interruptions: float) -> tuple[tuple[int, float], ...]:
        cover_sizes = covers.of(needed, (Mechanism.ara,), by_rate[interruptions])
        return tuple((cover.extra, cover.unavailability) for cover in cover_sizes)

    def lost(needed: int, extra: int, interruptions: float) -> float:
        candidates = sizes(needed, interruptions)
        return min((u for cover_extra, u in candidates if cover_extra <= extra), default=1.0)

    return lost


def fleet_of_sizes(path: Path, sizes: Sizes) -> Path:
    """Return the fleet with these servers and vCPUs in each tier, for the latency law."""
    return tuple(
        replace(o, needed=n, extra=0, instance=replace(o.instance, vcpus=v, baseline_share=1.0))
        for o, (n, v) in zip(path, sizes, strict=True)
    )


def _latency_check(
    case: Case, loads: Sequence[float], path: Path
) -> Callable[[int, Sizes], bool] | None:
    """Return the check for a period and sizes: True if the page exceeds a latency limit."""
    if not case.slo.latency_ms:
        return None
    cases = [case.with_load(load) for load in loads]
    limits = case.slo.latency_ms

    @cache
    def slow(period: int, sizes: Sizes) -> bool:
        try:
            percentiles = cases[period].latency(fleet_of_sizes(path, sizes))
        except UnstableError:
            return True
        return any(percentiles[q] > limit for q, limit in limits.items())

    return slow
