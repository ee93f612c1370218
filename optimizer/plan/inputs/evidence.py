"""Error of the latency model against measurements, and a plan's percentiles corrected by it.

If the model is below a measured arm, it is multiplied by measured / modelled of that arm, per
percentile. A factor below one is not used, because the model may not exaggerate for another fleet.
An arm's factor applies to all fleets with its replicas; other replicas get the geometric mean. A
percentile with fewer than ten samples beyond it has little evidence: it is marked, and its factor
is not below the arm's better known ones. A prediction is called measured only if the planned fleet
is the measured one (replicas, policy, nodes and cores), and is then the measurement; otherwise it
is called model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import Floats
from core.errors import UnstableError
from optimizer.fit import ArmMeasure, Estimate, ServiceFit
from optimizer.latency import BINS, PageLatency, Station, TierLatency, mean_of, mean_s, waits
from optimizer.latency.station import POLICIES
from optimizer.plan.inputs.demand import demands
from optimizer.plan.inputs.margin import LawError, law_error
from optimizer.plan.solve.options import Degraded, Option, TierDemand
from optimizer.plan.solve.problem import Laws, Path

_NEVER_S = 1e6  # longer than any horizon
LEAST_REQUESTS = 100  # of an arm, for its percentiles to calibrate anything


def percentile_of(arm: ArmMeasure, q: int) -> Estimate:
    """Return the arm's measured percentile [ms]."""
    return {95: arm.p95_ms, 99: arm.p99_ms}[q]


def thin_percentiles(measured: ServiceFit | None, percentiles: Iterable[int]) -> list[str]:
    """Return texts about percentiles with fewer than ten samples beyond: used, but unreliable."""
    return [
        f"arm {arm.name}: p{q} from {estimate.samples:,} requests, {estimate.least:,} needed for "
        "10 beyond it"
        for arm in (measured.arms if measured is not None else ())
        for q in percentiles
        if not (estimate := percentile_of(arm, q)).sufficient
    ]


@dataclass(frozen=True)
class Factor:
    """Calibration by one arm: a factor of at least 1 per percentile.

    It has the measured and the modelled percentiles [ms].
    """

    arm: ArmMeasure
    by_percentile: Mapping[int, float]
    measured_ms: Mapping[int, float]
    modelled_ms: Mapping[int, float]


@dataclass(frozen=True)
class PageChain:
    """`problem.Chain` of a latency.

    With a condition, a law has a part for a good day, and one part for each tier below, with that
    tier in the condition; the front tier is first.
    """

    latency: CalibratedLatency
    condition: Degraded | None

    def above(self, tier: int, option: Option, below: Laws | None) -> Laws:
        """Return the time in `tier` and below it."""
        station = self.latency.station(tier, option)
        if self.condition is None:
            return waits(station, below)
        worse = _degrade(station, option, self.condition)
        if below is None:
            return np.concatenate([waits(station), _waits_or_never(worse, None)], axis=1)
        parts = below.reshape(len(below), -1, BINS)
        good_day, *degraded = (waits(station, parts[:, i]) for i in range(parts.shape[1]))
        return np.concatenate([good_day, _waits_or_never(worse, parts[:, 0]), *degraded], axis=1)

    def mean_s(self, laws: Laws) -> Floats:
        """Return the mean of each law [s], on a good day."""
        return mean_of(laws[:, :BINS])


def _degrade(station: Station, option: Option, condition: Degraded) -> Station:
    return replace(
        station,
        servers=max(1, condition.servers(option)),
        limping=condition.limping,
        limp_speed=condition.limp_speed,
    )


def _waits_or_never(station: Station, below: Laws | None) -> Laws:
    """Return the wait; infinite if the station is overloaded."""
    try:
        return waits(station, below)
    except UnstableError:
        return np.full((1 if below is None else len(below), BINS), _NEVER_S)


class CalibratedLatency:
    """Percentiles [ms] of a plan: the page model times the calibration of the plan's replicas.

    Parameters: planned, the demands that the plan is for; measured, the service with the arms that
    calibrate the model (None: nothing was measured, all factors are 1); horizon_s of the grid [s];
    level, the probability that a percentile is not above its prediction (None: no margin).
    """

    def __init__(
        self,
        planned: Sequence[TierDemand],
        percentiles: Sequence[int],
        horizon_s: float,
        policy: str,
        measured: ServiceFit | None = None,
        level: float | None = None,
    ) -> None:
        self._planned = tuple(planned)
        self._percentiles = tuple(percentiles)
        self._page = PageLatency(horizon_s)
        self._policy = policy
        self._known: dict[tuple[Station, ...], dict[int, float]] = {}
        self._measured = measured
        self._arm_demands = demands(measured) if measured is not None else ()
        arms = measured.arms if measured is not None else ()
        self.unknown = tuple(arm.name for arm in arms if arm.policy not in POLICIES)
        # If arms differ only in the policy, the arm with the plan's policy counts.
        modelled_arms = [arm for arm in arms if arm.policy in POLICIES]
        modelled_arms.sort(key=lambda arm: arm.policy == policy)
        self.factors = {arm.replicas: f for arm in modelled_arms if (f := self._factor(arm))}
        self.errors = {q: self._error(q) for q in self._percentiles}
        self.margins = {
            q: 1.0 if level is None else error.factor(level) for q, error in self.errors.items()
        }

    def __call__(self, path: Path) -> dict[int, float]:
        return self._evaluate(self._stations(path))

    def middle(self, percentiles: Mapping[int, float]) -> dict[int, float]:
        """Return the predicted percentiles without the margin."""
        return {q: value / self.margins[q] for q, value in percentiles.items()}

    def degraded(self, path: Path, tier: int, condition: Degraded) -> dict[int, float]:
        """Return the percentiles [ms] while `tier` is degraded; infinite if it is overloaded."""
        stations = list(self._stations(path))
        stations[tier] = _degrade(stations[tier], path[tier], condition)
        try:
            return self._evaluate(tuple(stations))
        except UnstableError:
            return dict.fromkeys(self._percentiles, math.inf)

    def station(self, tier: int, option: Option) -> Station:
        return option.station(self._planned[tier], self._policy)

    def _stations(self, path: Path) -> tuple[Station, ...]:
        return tuple(self.station(tier, option) for tier, option in enumerate(path))

    def page_s(self, path: Path) -> float:
        """Return the modelled mean of the page [s], not calibrated."""
        return mean_s(self._stations(path))

    def _evaluate(self, stations: tuple[Station, ...]) -> dict[int, float]:
        if stations not in self._known:
            factors = self.factor_of(tuple(s.replicas for s in stations))
            self._known[stations] = {
                q: self.margins[q] * factors[q] * 1000.0 * self._page.percentile_s(stations, q)
                for q in self._percentiles
            }
        return self._known[stations]

    def factor_of(self, replicas: tuple[int, ...]) -> dict[int, float]:
        """Return the calibration of these replicas per percentile; 1 without arms."""
        factor = self.factors.get(replicas)
        if factor is not None:
            return dict(factor.by_percentile)
        return {q: self._mean_factor(q, list(self.factors.values())) for q in self._percentiles}

    def _mean_factor(self, q: int, factors: Sequence[Factor]) -> float:
        """Return the geometric mean of arms' factors; 1 without any."""
        logs = [math.log(factor.by_percentile[q]) for factor in factors]
        return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0

    def _error(self, q: int) -> LawError:
        """Return the error of the predictions of this percentile; see `margin`."""
        factors = list(self.factors.values())
        residuals = [
            math.log(
                factor.measured_ms[q]
                / (factor.modelled_ms[q] * self._mean_factor(q, other_factors))
            )
            for number, factor in enumerate(factors)
            if (other_factors := [*factors[:number], *factors[number + 1 :]])
        ]
        estimates = [percentile_of(factor.arm, q) for factor in factors]
        relative = [f.spread / f.value for f in estimates if f.spread is not None and f.value]
        return law_error(q, residuals, relative if residuals else ())

    def measured(self, path: Path) -> Factor | None:
        """Return the arm that measured exactly this fleet under its load, if any."""
        if self._measured is None or _loads(self._planned) != _loads(self._arm_demands):
            return None
        factor = self.factors.get(tuple(o.replicas for o in path))
        if factor is None or factor.arm.policy != self._policy:
            return None
        if not all(percentile_of(factor.arm, q).sufficient for q in self._percentiles):
            return None
        for option, tier in zip(path, self._measured.tiers, strict=True):
            if (option.needed, float(option.instance.vcpus)) != (tier.spec.nodes, tier.spec.cpus):
                return None
        return factor

    def _factor(self, arm: ArmMeasure) -> Factor | None:
        assert self._measured is not None
        upstream, stations = 1, []
        tiers = zip(self._arm_demands, self._measured.tiers, arm.replicas, strict=True)
        for demand, tier, r in tiers:
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
        ratios, measured, modelled = {}, {}, {}
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
            modelled[q] = 1000.0 * modelled_s
            ratios[q] = max(1.0, estimate.value / modelled[q])
        sufficient = [ratios[q] for q in self._percentiles if percentile_of(arm, q).sufficient]
        for q in self._percentiles:
            if sufficient and not percentile_of(arm, q).sufficient:
                ratios[q] = max(ratios[q], *sufficient)  # thin: not below the better known factors
        return Factor(arm, ratios, measured, modelled)


def _loads(tiers: Sequence[TierDemand]) -> list[tuple[TierLatency, float]]:
    return [(tier.latency, tier.request_per_s) for tier in tiers]
