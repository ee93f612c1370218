"""What a plan is asked for, complete and checked, and the optimization problem that follows.

A case can be changed in one input and asked again: that is how the explanations find out what an
uncertain input would do to the cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from optimizer.availability import FailureRates
from optimizer.errors import InputError, require_count, require_positive, require_share
from optimizer.fit import ServiceFit
from optimizer.latency import zero_load_s
from optimizer.plan.evidence import CalibratedLatency
from optimizer.plan.options import Covers, Degraded, Limits, TierDemand, fitting
from optimizer.plan.problem import Problem
from optimizer.plan.table import OptionTable, tier_table
from optimizer.prices import Instance, PriceBook

PERCENTILES = {"p95_ms": 95, "p99_ms": 99}
_NOT_OURS = ("max_error_share",)  # the run's own verdict, nothing that a plan can keep
_KEYS = ("availability", *PERCENTILES, "confidence", "degraded")
_CLOUD_HEADROOM_MB = 256.0  # for the operating system of a virtual machine


@dataclass(frozen=True)
class Slo:
    """What has to be kept. `confidence` is that of the availability, for uncertain rates."""

    availability: float | None = None
    latency_ms: Mapping[int, float] = field(default_factory=dict)
    confidence: float | None = None
    degraded: Degraded | None = None


def slo_from(table: Mapping[str, Any], place: str = "slo") -> Slo:
    """An [slo] table, checked. `place` is its name in refusals.

    Raises: InputError for unknown keys, targets at or above 1 or below 0, limits that are not
    positive and finite, and if there is none at all.
    """
    for key in table:
        if key not in (*_KEYS, *_NOT_OURS):
            raise InputError(
                f"{place}.{key}", expected=f"one of {', '.join(_KEYS)}", came="an unknown key"
            )
    availability = table.get("availability")
    if availability is not None:
        require_share(f"{place}.availability", availability, one=False)
        require_positive(f"{place}.availability", availability)
    latency_ms = {
        q: require_positive(f"{place}.{key}", table[key])
        for key, q in PERCENTILES.items()
        if table.get(key) is not None
    }
    if availability is None and not latency_ms:
        raise InputError(place, expected="availability, p95_ms or p99_ms", came="none of them")
    confidence = table.get("confidence")
    if confidence is not None:
        require_share(f"{place}.confidence", confidence, one=False)
        require_positive(f"{place}.confidence", confidence)
        if availability is None:
            raise InputError(
                f"{place}.confidence", expected=f"with {place}.availability", came="without it"
            )
    degraded = table.get("degraded")
    return Slo(
        None if availability is None else float(availability),
        latency_ms,
        None if confidence is None else float(confidence),
        None if degraded is None else _degraded(degraded, f"{place}.degraded"),
    )


def _degraded(table: Any, place: str) -> Degraded:
    known = ("nodes_down", "limping", "limp_speed")
    if not isinstance(table, Mapping):
        raise InputError(place, expected=f"a table of {', '.join(known)}", came=repr(table))
    for key in table:
        if key not in known:
            raise InputError(
                f"{place}.{key}", expected=f"one of {', '.join(known)}", came="an unknown key"
            )
    down = require_count(f"{place}.nodes_down", table.get("nodes_down", 0))
    limping = require_count(f"{place}.limping", table.get("limping", 0))
    if limping > 1:
        raise InputError(f"{place}.limping", expected="0 or 1", came=str(limping))
    if not down and not limping:
        raise InputError(place, expected="nodes_down or limping of at least 1", came="neither")
    if limping and "limp_speed" not in table:
        raise InputError(
            f"{place}.limp_speed", expected="the share of its speed that is left", came="nothing"
        )
    speed = table.get("limp_speed", 1.0)
    require_share(f"{place}.limp_speed", speed)
    return Degraded(down, limping, require_positive(f"{place}.limp_speed", speed))


@dataclass(frozen=True)
class Case:
    """One question. `tiers` are what is planned for; `measured` calibrates the latency model."""

    tiers: tuple[TierDemand, ...]
    slo: Slo
    scheme: str
    region: str
    book: PriceBook
    limits: Limits
    rates: FailureRates
    policy: str = "tad"
    measured: ServiceFit | None = None

    def __post_init__(self) -> None:
        if self.scheme not in ("cloud", "on-prem"):
            raise InputError("scheme", expected="cloud or on-prem", came=repr(self.scheme))
        if self.limits.max_replicas > self.limits.max_nodes:
            raise InputError(
                "limits.max_replicas",
                expected=f"at most limits.max_nodes ({self.limits.max_nodes})",
                came=str(self.limits.max_replicas),
            )
        for tier in self.tiers:
            for name in tier.instance_types or ():
                self.book.instance(self.region, name)  # unknown names are refused

    @property
    def max_nodes(self) -> int:
        """Most nodes and spares of a tier."""
        return self.limits.max_nodes

    @property
    def headroom_mb(self) -> float:
        """Memory beside the tier's: a rented machine's system. Owned ones are sold by the slice."""
        return 0.0 if self.book.costs else _CLOUD_HEADROOM_MB

    @cached_property
    def latency(self) -> CalibratedLatency:
        """The page's percentiles of any plan of this case."""
        return CalibratedLatency(
            self.tiers, list(self.slo.latency_ms), self._horizon_s(), self.policy, self.measured
        )

    def problem(self, *, max_nodes: int | None = None) -> Problem:
        """The problem, or the same with other max_nodes."""
        limits = self.limits if max_nodes is None else replace(self.limits, max_nodes=max_nodes)
        degraded = self.slo.degraded
        return Problem(
            options=self._options(limits),
            latency=self.latency,
            availability_min=self.slo.availability,
            latency_ms_max=self.slo.latency_ms,
            utilisation_max=limits.max_utilisation,
            collision_max=limits.max_collision,
            degraded=degraded,
            latency_degraded=self.latency.while_degraded(degraded) if degraded else None,
            chain=self.latency,
        )

    def changed(self, name: str, factor: float) -> Problem | None:
        """The problem with one input multiplied by `factor`; None where that changes nothing.

        Parameters: name crash_per_year | failover_s | repair_s | arrival_rate | interference_share
        | gamma (the speed that neighbours leave, of all tiers).
        """
        other = self._changed(name, factor)
        return None if other == self else other.problem()

    def check_zero_load(self, place: str = "slo") -> None:
        """Raises InputError for a latency limit that no fleet of any size can keep."""
        if not self.slo.latency_ms or not self.tiers:
            return
        cores = [max((i.vcpus for i in self._fitting(t)), default=1.0) for t in self.tiers]
        replicas = [self.limits.max_replicas] * len(self.tiers)
        laws = [tier.latency for tier in self.tiers]
        least_s = zero_load_s(laws, cores, replicas, self.policy, list(self.slo.latency_ms))
        for q, asked_ms in self.slo.latency_ms.items():
            least_ms = 1000.0 * least_s[q]
            if asked_ms < least_ms * (1.0 - 1e-3):  # the grid's error
                raise InputError(
                    f"{place}.p{q}_ms",
                    expected=f"at least {least_ms:.2f} ms, the page without any load on machines "
                    f"without end",
                    came=f"{asked_ms:g} ms",
                    do="No fleet is that fast: raise it, or make the service faster.",
                )

    def _changed(self, name: str, factor: float) -> Case:
        if name in ("crash_per_year", "failover_s", "repair_s"):
            value = getattr(self.rates, name)
            if value is None:
                return self
            return replace(self, rates=replace(self.rates, **{name: value * factor}))
        if name not in ("arrival_rate", "interference_share", "gamma"):
            raise InputError("input", expected="one that can be changed", came=repr(name))
        return replace(self, tiers=tuple(_scaled(tier, name, factor) for tier in self.tiers))

    def _horizon_s(self) -> float:
        """The latency grid reaches well beyond the SLO and beyond what was measured.

        A power of two: limits that hardly differ are evaluated on the same grid.
        """
        arms = self.measured.arms if self.measured is not None else ()
        measured = [v for a in arms if (v := a.p99_ms.value) is not None]
        reach_s = 4.0 * max([*self.slo.latency_ms.values(), *measured, 1.0]) / 1000.0
        return 2.0 ** math.ceil(math.log2(reach_s))

    def _fitting(self, tier: TierDemand) -> list[Instance]:
        return fitting(self.book.instances(self.region), tier, self.headroom_mb)

    def _options(self, limits: Limits) -> tuple[OptionTable, ...]:
        """Options per tier at every amplification that the tiers above can make."""
        covers = Covers(self.rates, self.scheme, limits)
        levels, result = [1], []
        for tier in self.tiers:
            table = tier_table(tier, levels, self._fitting(tier), covers, limits)
            made = table.columns.upstream * table.columns.replicas
            levels = sorted({int(level) for level in made})
            result.append(table)
        return tuple(result)


def _scaled(tier: TierDemand, name: str, factor: float) -> TierDemand:
    if name == "arrival_rate":
        return replace(
            tier,
            request_per_s=tier.request_per_s * factor,
            connection_per_s=tier.connection_per_s * factor,
        )
    value = min(1.0 if name == "gamma" else 0.95, getattr(tier.latency, name) * factor)
    return replace(tier, latency=replace(tier.latency, **{name: value}))
