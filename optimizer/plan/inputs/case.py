"""A plan's case, complete and checked, and the optimization problem that follows.

A case can be changed in one input and solved again; the explanations use this to find the effect of
an uncertain input on the cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field, model_validator

from core.config_file import ConfigFile, Positive, Strict, check, refusal
from core.errors import InputError, UnstableError
from core.vocabulary import scheme_of
from optimizer.availability import FailureRates, availability
from optimizer.availability.rates import require_target
from optimizer.fit import ServiceFit
from optimizer.latency import zero_load_s
from optimizer.plan.inputs.domains import Domain, covers_of, own_rates, spreads_of
from optimizer.plan.inputs.evidence import CalibratedLatency, PageChain
from optimizer.plan.inputs.integrity import IntegritySlo
from optimizer.plan.inputs.performability import Bound, UsersSlo
from optimizer.plan.inputs.remedy import Remedy, without_limping
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.options import (
    Degraded,
    Limits,
    Option,
    TierDemand,
    fitting,
    rates_of,
    with_room,
)
from optimizer.plan.solve.problem import Path, Problem, in_ms
from optimizer.plan.solve.spread import Spread
from optimizer.plan.solve.table import OptionTable, tier_table
from optimizer.prices import Instance, PriceBook

PERCENTILES = {"p95_ms": 95, "p99_ms": 99}
CONFIDENCE_LEAST = 1e-3  # below, quantiles are not finite
# Limits of the run's own verdict, which no plan can keep.
_NOT_OURS = ("max_error_share", "operations", "sessions")
_CLOUD_HEADROOM_MB = 256.0  # for the operating system of a virtual machine


class Slo(Strict):
    """The limits to keep. `confidence`: with at least this probability all of it, whatever the
    uncertain figures turn out to be (`margin`)."""

    availability: Annotated[float, Field(gt=0, lt=1)] | None = None
    p95_ms: Positive | None = None
    p99_ms: Positive | None = None
    confidence: Annotated[float, Field(ge=CONFIDENCE_LEAST, lt=1)] | None = None
    degraded: Degraded | None = None
    performability: UsersSlo | None = None
    integrity: IntegritySlo | None = None

    @model_validator(mode="after")
    def _check_reachable(self) -> Slo:
        if self.availability is not None:
            try:
                require_target("availability", self.availability)
            except InputError as error:
                raise refusal(
                    error.expected, got=error.got, key="availability", hint=error.hint
                ) from error
        if self.p95_ms is not None and self.p99_ms is not None and self.p99_ms < self.p95_ms:
            raise refusal(
                f"at least p95_ms ({self.p95_ms:g}): a p99 is never below the p95",
                got=f"{self.p99_ms:g}",
                key="p99_ms",
                hint="Leave p95_ms out, or correct one of the two.",
            )
        return self

    @model_validator(mode="after")
    def _asks_something(self) -> Slo:
        if self.availability is None and not self.latency_ms and self.integrity is None:
            raise refusal("availability, p95_ms, p99_ms or integrity", got="none of them")
        return self

    @property
    def latency_ms(self) -> dict[int, float]:
        """The latency limits by percentile."""
        stated = {q: getattr(self, key) for key, q in PERCENTILES.items()}
        return {q: value for q, value in stated.items() if value is not None}


def slo_from(table: Mapping[str, Any]) -> Slo:
    """Return the checked SLO of a run or of the command line. Raises InputError."""
    limits = {key: value for key, value in table.items() if key not in _NOT_OURS}
    return check(ConfigFile(FilePath("plan"), {"slo": limits}).section("slo"), Slo)


@dataclass(frozen=True)
class Case:
    """The inputs of one plan: `tiers` is the demand; `measured` calibrates the latency model."""

    tiers: tuple[TierDemand, ...]
    slo: Slo
    scheme: str
    region: str
    book: PriceBook
    limits: Limits
    rates: FailureRates
    policy: str = "tad"
    measured: ServiceFit | None = None
    level: float | None = None  # of the latency law's error; None: predictions as they are
    remedies: tuple[Remedy, ...] = ()  # against limping: to be compared with the plan's machines
    users: Bound | None = None  # most machines that keep the promise to users
    domains: tuple[Domain, ...] = ()  # zones, hosts: what fails as a whole, the widest first
    packed: bool = False  # on own servers, where a smaller machine at the same cost may fit

    def __post_init__(self) -> None:
        scheme_of(self.scheme)
        if self.limits.max_replicas > self.limits.max_nodes:
            raise InputError(
                "limits.max_replicas",
                expected=f"at most limits.max_nodes ({self.limits.max_nodes})",
                got=str(self.limits.max_replicas),
            )
        for tier in self.tiers:
            for name in tier.instance_types or ():
                self.book.instance(self.region, name)  # unknown names are refused

    @property
    def max_nodes(self) -> int:
        return self.limits.max_nodes

    @property
    def headroom_mb(self) -> float:
        """Memory for a rented machine's system, beside the tier's. Owned ones need none here."""
        return 0.0 if self.book.costs else _CLOUD_HEADROOM_MB

    @cached_property
    def latency(self) -> CalibratedLatency:
        """The latency model of this case: percentiles of a page for any plan."""
        return CalibratedLatency(
            self.tiers,
            list(self.slo.latency_ms),
            self._horizon_s(),
            self.policy,
            self.measured,
            self.level,
        )

    def problem(self, check: Check = unbounded, *, max_nodes: int | None = None) -> Problem:
        """Return the problem, optionally with other max_nodes; `check` may raise to stop it."""
        limits = self.limits
        if max_nodes is not None:
            limits = limits.model_copy(update={"max_nodes": max_nodes})
        return self.problem_with(self._list_options(limits, check))

    def problem_with(self, options: tuple[Sequence[Option], ...]) -> Problem:
        """Return the problem with the limits of this case and these options."""
        limits, degraded, target = self.limits, self.slo.degraded, self.slo.availability
        degraded_latency = (
            None if degraded is None else partial(self.latency.degraded, condition=degraded)
        )
        return Problem(
            options=options,
            latency=self.latency,
            unavailability_max=None if target is None else 1.0 - target,
            latency_ms_max=self.slo.latency_ms,
            utilisation_max=limits.max_utilisation,
            collision_max=limits.max_collision,
            degraded=degraded,
            latency_degraded=degraded_latency,
            chain=PageChain(self.latency, degraded),
        )

    def changed(self, name: str, factor: float, check: Check = unbounded) -> Problem | None:
        """Return the problem with one input multiplied by `factor`; None if that changes
        nothing.

        Parameters: name crash_per_year | failover_s | repair_s | arrival_rate | interference_share
        | gamma (the speed that neighbours leave, of all tiers).
        """
        changed = self._change(name, factor)
        return None if changed == self else changed.problem(check=check)

    def with_load(self, factor: float) -> Case:
        return self._change("arrival_rate", factor)

    @property
    def limps(self) -> bool:
        """True if machines that limp are planned with."""
        degraded = self.slo.degraded
        return self.rates.limps or (degraded is not None and degraded.limping > 0)

    def without_limping(self) -> Case:
        slo = self.slo.model_copy(update={"degraded": without_limping(self.slo.degraded)})
        return replace(self, slo=slo, rates=replace(self.rates, limp_per_year=0.0))

    def with_remedy(self, remedy: Remedy) -> Case:
        slo = self.slo.model_copy(update={"degraded": remedy.with_degraded(self.slo.degraded)})
        return replace(self, slo=slo, rates=replace(self.rates, **remedy.rates))

    def percentiles_ms(self, path: Path) -> dict[str, float | None]:
        """Return a fleet's percentiles that have limits in the SLO, without the margin.

        They are None if the fleet cannot take the load.
        """
        if not self.slo.latency_ms:
            return {}
        try:
            return in_ms(self.latency.middle(self.latency(path)))
        except UnstableError:
            return in_ms(dict.fromkeys(self.slo.latency_ms, math.inf))

    def unavailability(self, option: Option, rates: FailureRates | None = None) -> float:
        """Return an upper bound of the unavailability of a tier with these machines.

        It is 1 if the rules of its domains allow no placement. Parameters: rates in place of the
        case's.
        """
        if self.domains:
            spread = self.spread(option, rates)
            return 1.0 if spread is None else spread.unavailability
        demand = self._demand(option.tier)
        state, scheme = demand.state, demand.state.scheme(self.scheme)
        tier_rates = rates_of(self.rates if rates is None else rates, option.instance, demand)
        nodes = availability(
            option.needed, option.extra, tier_rates, mechanism=option.mechanism, scheme=scheme
        ).unavailability_most
        return state.lost(option.needed, option.mechanism, option.extra, tier_rates, scheme, nodes)

    def spread(self, option: Option, rates: FailureRates | None = None) -> Spread | None:
        """Return the best placement of a tier's machines; None if the domains' rules allow none.

        Parameters: rates in place of the case's.
        """
        rates = self.rates if rates is None else rates
        tier_rates = rates_of(
            own_rates(self.domains, rates), option.instance, self._demand(option.tier)
        )
        spreads = spreads_of(self.domains, rates, self.scheme)
        return spreads.best(
            option.needed, option.extra, tier_rates, option.mechanism, option.replicas
        )

    def check_zero_load(self, source: ConfigFile | None = None) -> None:
        """Raises InputError for a latency limit that no fleet of any size can keep.

        Parameters: source, the file that states it.
        """
        if not self.slo.latency_ms or not self.tiers:
            return
        cores = [
            max((i.vcpus for i in self._fitting_instances(t)), default=1.0) for t in self.tiers
        ]
        most = self.limits.max_replicas
        replicas = [min(most, tier.max_replicas or most) for tier in self.tiers]
        laws = [tier.latency for tier in self.tiers]
        with source.naming("tiers") if source is not None else nullcontext():
            least_s = zero_load_s(laws, cores, replicas, self.policy, list(self.slo.latency_ms))
        for q, asked_ms in self.slo.latency_ms.items():
            least_ms = 1000.0 * least_s[q]
            if asked_ms < least_ms * (1.0 - 1e-3):  # the grid's error
                key = ("slo", f"p{q}_ms")
                raise InputError(
                    source.place(*key) if source is not None else ".".join(key),
                    expected=f"at least {least_ms:.2f} ms, the page without any load on machines "
                    f"without end",
                    got=f"{asked_ms:g} ms",
                    hint="No fleet is that fast: raise it, or make the service faster.",
                )

    def _change(self, name: str, factor: float) -> Case:
        if name in ("crash_per_year", "failover_s", "repair_s"):
            value = getattr(self.rates, name)
            if value is None:
                return self
            return replace(self, rates=replace(self.rates, **{name: value * factor}))
        if name not in ("arrival_rate", "interference_share", "gamma"):
            raise InputError("input", expected="one that can be changed", got=repr(name))
        return replace(self, tiers=tuple(_scale(tier, name, factor) for tier in self.tiers))

    def unservable_tiers(self) -> tuple[str, ...]:
        """Return texts about tiers that no machine can serve, with a way out.

        No allowed machine has a tier's memory, or no machine carries its writes.
        """
        texts = []
        for tier in self.tiers:
            fitting = self._fitting_instances(tier)
            if not fitting:
                texts.append(self._describe_unservable(tier))
                continue
            least = min(tier.written(instance, 1) for instance in fitting)
            if least > self.limits.max_utilisation:
                texts.append(
                    f"tier {tier.name}: writes and reads for one certain machine: alone they use "
                    f"{least:.0%} of its largest machine, at most "
                    f"{self.limits.max_utilisation:.0%} are allowed: more machines do not help, "
                    "parts of the data would"
                )
        return tuple(texts)

    def _describe_unservable(self, tier: TierDemand) -> str:
        allowed = [
            instance
            for instance in self.book.instances(self.region)
            if (tier.instance_types is None or instance.type_name in tier.instance_types)
            and instance.arch in tier.arch
        ]
        if not allowed:
            built = " or ".join(tier.arch)
            return f"tier {tier.name}: arch: {self.region} has no instance type of {built}"
        most = max((instance.memory_gb * 1024 for instance in allowed), default=0.0)
        kind = "allowed instance type" if tier.instance_types is not None else "instance type"
        needed = tier.memory_mb + self.headroom_mb
        return (
            f"tier {tier.name}: memory_mb: no {kind} has {needed:.0f} MB (its {tier.memory_mb:.0f}"
            f" and {self.headroom_mb:.0f} for the system); the largest has {most:.0f}"
        )

    def _horizon_s(self) -> float:
        """Return the horizon of the latency grid, well beyond the SLO and the measurements."""
        arms = self.measured.arms if self.measured is not None else ()
        measured = [v for a in arms if (v := a.p99_ms.value) is not None]
        reach_s = 4.0 * max([*self.slo.latency_ms.values(), *measured, 1.0]) / 1000.0
        return 2.0 ** math.ceil(math.log2(reach_s))

    def _demand(self, name: str) -> TierDemand:
        return next(tier for tier in self.tiers if tier.name == name)

    def _fitting_instances(self, tier: TierDemand) -> list[Instance]:
        choose = with_room if self.packed else fitting
        return choose(self.book.instances(self.region), tier, self.headroom_mb)

    def _list_options(self, limits: Limits, check: Check) -> tuple[OptionTable, ...]:
        """Return the options of each tier, at every amplification by the tiers above."""
        degraded = self.slo.degraded
        down = degraded.nodes_down if degraded is not None else 0
        levels, result = [1], []
        for tier in self.tiers:
            tier_limits = self._bound_nodes(tier.name, limits)
            covers = covers_of(
                self.domains, self.rates, self.scheme, tier_limits, down, tier, check
            )
            table = tier_table(
                tier, levels, self._fitting_instances(tier), covers, tier_limits, check
            )
            amplifications = table.columns.upstream * table.columns.replicas
            levels = sorted({int(level) for level in amplifications})
            result.append(table)
        return tuple(result)

    def _bound_nodes(self, tier: str, limits: Limits) -> Limits:
        """Return the limits, with no more machines of the tier than keep the promise to users."""
        if self.users is None or self.users.tier != tier or self.users.machines is None:
            return limits
        fewer = min(limits.max_nodes, self.users.machines)
        return limits.model_copy(update={"max_nodes": fewer})


def _scale(tier: TierDemand, name: str, factor: float) -> TierDemand:
    if name == "arrival_rate":
        return replace(
            tier,
            request_per_s=tier.request_per_s * factor,
            connection_per_s=tier.connection_per_s * factor,
        )
    value = min(1.0 if name == "gamma" else 0.95, getattr(tier.latency, name) * factor)
    return replace(tier, latency=replace(tier.latency, **{name: value}))
