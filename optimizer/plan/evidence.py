"""From a fitted service to what the optimizer needs, and how far the latency model is off it.

Two corrections come from what was measured. The slowdown under interference is seen in latencies,
which hold queueing too: the speed that explains them is solved for. And where the model comes out
below a measured arm, it is multiplied by measured / modelled of that arm, per percentile. A factor
below one is not carried over: what the model exaggerates at the measured load another fleet may not
have. An arm's factor serves all fleets with its replicas; other replicas get the geometric mean.
A percentile with fewer than ten samples beyond it is thin: it is said, and its factor is not below
the arm's better known ones. A prediction is called measured only if the planned fleet is the
measured one (replicas, policy, nodes and cores), and then it is the measurement; else it is model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.errors import UnstableError
from optimizer.fit import ArmMeasure, Estimate, ServiceFit, TierFit
from optimizer.latency import PageLatency, Station, TierLatency, mean_stay_s
from optimizer.plan.options import TierDemand
from optimizer.plan.problem import Path

LEAST_REQUESTS = 100  # of an arm, for its percentiles to calibrate anything
_CV2_RANGE = (0.05, 10.0)


def percentile_of(arm: ArmMeasure, q: int) -> Estimate:
    """The arm's measured percentile [ms]."""
    return {95: arm.p95_ms, 99: arm.p99_ms}[q]


def demands(service: ServiceFit) -> tuple[TierDemand, ...]:
    """The tiers' demands at r = 1 everywhere, from the front."""
    pages = _known(service.pages_per_s)
    rate, found = pages, []
    for tier in service.tiers:
        rate *= _known(tier.requests_per_copy)
        found.append(
            TierDemand(
                name=tier.spec.name,
                latency=_tier_latency(tier, rate),
                request_per_s=rate,
                memory_mb=tier.spec.memory_mb,
            )
        )
    return tuple(found)


def connection_rates_per_s(service: ServiceFit) -> tuple[float, ...]:
    """Connections per second of each tier at r = 1 everywhere (requests, where tokens are per
    request)."""
    copies, found = _known(service.pages_per_s), []
    for tier in service.tiers:
        found.append(copies * _known(tier.connections_per_copy))
        copies *= _known(tier.requests_per_copy)
    return tuple(found)


def _known(estimate: Estimate) -> float:
    assert estimate.value is not None  # the caller stops where something is missing
    return estimate.value


def _tier_latency(tier: TierFit, request_per_s: float) -> TierLatency:
    cv2 = tier.service_cv2.value if tier.service_cv2.sufficient else None
    gamma = tier.gamma.value if tier.gamma.sufficient else None
    found = TierLatency(
        processing_s=_known(tier.processing_s),
        cv2=1.0 if cv2 is None else min(_CV2_RANGE[1], max(_CV2_RANGE[0], cv2)),
        visits=_known(tier.requests_per_copy),
        interference_share=min(0.95, tier.interference_share.value or 0.0),
        gamma=1.0,
        run_s=tier.interference_run_s,
    )
    if gamma is None or tier.spec.cpus is None:
        return found
    load = request_per_s * found.processing_s / (tier.spec.nodes * tier.spec.cpus)
    return replace(found, gamma=speed_under_interference(found, tier.spec.cpus, load, gamma))


def speed_under_interference(
    tier: TierLatency, cores: float, load: float, latency_ratio: float
) -> float:
    r"""The speed gamma whose mean stay R(load / gamma) explains quiet / disturbed latency.

    Parameters: load rho of the undisturbed server in [0, 1); latency_ratio in (0, 1].
    Returns: gamma in [latency_ratio, 1]; queueing is part of the slowdown that latencies show.
    On one core: gamma = rho + ratio (1 - rho).
    """
    if not load < 1:
        return latency_ratio
    wanted_s = mean_stay_s(tier, cores, load, 1.0) / latency_ratio
    low, high = max(latency_ratio, load / 0.97), 1.0
    if low >= high:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if mean_stay_s(tier, cores, load / middle, middle) > wanted_s:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class Factor:
    """Calibration by one arm, at least 1 per percentile, and the measured percentiles [ms]."""

    arm: ArmMeasure
    by_percentile: Mapping[int, float]
    measured_ms: Mapping[int, float]


class CalibratedLatency:
    """Percentiles [ms] of a plan: the page model times the calibration of the plan's replicas."""

    def __init__(
        self, service: ServiceFit, percentiles: Sequence[int], horizon_s: float, policy: str
    ) -> None:
        self._demands = demands(service)
        self._service = service
        self._percentiles = tuple(percentiles)
        self._page = PageLatency(horizon_s)
        self._policy = policy
        self._seen: dict[tuple[Station, ...], dict[int, float]] = {}
        self.factors = {arm.replicas: f for arm in service.arms if (f := self._factor(arm))}

    def __call__(self, path: Path) -> dict[int, float]:
        stations = tuple(
            option.station(demand, self._policy)
            for option, demand in zip(path, self._demands, strict=True)
        )
        if stations not in self._seen:
            factors = self.factor_of(tuple(o.replicas for o in path))
            self._seen[stations] = {
                q: factors[q] * 1000.0 * self._page.percentile_s(stations, q)
                for q in self._percentiles
            }
        return self._seen[stations]

    def factor_of(self, replicas: tuple[int, ...]) -> dict[int, float]:
        """Calibration of these replicas per percentile; 1 if no arm gives any."""
        known = self.factors.get(replicas)
        if known is not None:
            return dict(known.by_percentile)
        logs: dict[int, list[float]] = {q: [] for q in self._percentiles}
        for factor in self.factors.values():
            for q, value in factor.by_percentile.items():
                logs[q].append(math.log(value))
        return {q: math.exp(math.fsum(v) / len(v)) if v else 1.0 for q, v in logs.items()}

    def measured(self, path: Path) -> Factor | None:
        """The arm that measured exactly this plan's fleet, if there is one."""
        factor = self.factors.get(tuple(o.replicas for o in path))
        if factor is None or factor.arm.policy != self._policy:
            return None
        if not all(percentile_of(factor.arm, q).sufficient for q in self._percentiles):
            return None
        for option, tier in zip(path, self._service.tiers, strict=True):
            if (option.needed, float(option.instance.vcpus)) != (tier.spec.nodes, tier.spec.cpus):
                return None
        return factor

    def _factor(self, arm: ArmMeasure) -> Factor | None:
        upstream, stations = 1, []
        for demand, tier, r in zip(self._demands, self._service.tiers, arm.replicas, strict=True):
            assert tier.spec.cpus is not None
            stations.append(
                Station(
                    tier=demand.latency,
                    servers=tier.spec.nodes,
                    cores=tier.spec.cpus,
                    replicas=r,
                    policy=arm.policy,
                    request_per_s=demand.request_per_s * upstream,
                )
            )
            upstream *= r
        ratios, measured = {}, {}
        for q in self._percentiles:
            estimate = percentile_of(arm, q)
            if not estimate.value or estimate.samples < LEAST_REQUESTS:
                return None
            try:
                modelled_s = self._page.percentile_s(stations, q)
            except UnstableError:
                return None
            if not 0 < modelled_s < math.inf:
                return None
            measured[q] = estimate.value
            ratios[q] = max(1.0, estimate.value / (1000.0 * modelled_s))
        sure = [ratios[q] for q in self._percentiles if percentile_of(arm, q).sufficient]
        for q in self._percentiles:
            if sure and not percentile_of(arm, q).sufficient:
                ratios[q] = max(ratios[q], *sure)  # thin: not below what is better known
        return Factor(arm, ratios, measured)
