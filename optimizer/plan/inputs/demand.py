"""The tiers' demands from a fitted service, for the latency law and the options.

The slowdown under interference is measured in latencies, which include queueing, so the speed that
explains them is solved for.
"""

from __future__ import annotations

from dataclasses import replace

from core.vocabulary import MECHANISMS, Mechanism
from optimizer.fit import Estimate, ServiceFit, TierFit
from optimizer.latency import TierLatency, mean_stay_s
from optimizer.plan.solve.options import TierDemand
from optimizer.plan.solve.state import TierState

CV2_RANGE = (0.05, 10.0)  # range of the law; values outside are set to the nearest end


def demands(service: ServiceFit) -> tuple[TierDemand, ...]:
    """Return the tiers' demands at r = 1 everywhere, from the front."""
    copies, tiers = _value(service.pages_per_s), []
    for tier in service.tiers:
        state = TierState(
            tier.spec.state,
            copy_mb_per_s=_copy_mb_per_s(tier),
            primary=tier.spec.promote_s is not None,
            promote_s=tier.spec.promote_s,
            any_loss_stops_writes=tier.spec.any_loss_stops_writes,
        )
        rate = copies * _value(tier.requests_per_copy)
        hold = tier.token_hold_s.value
        tiers.append(
            TierDemand(
                name=tier.spec.name,
                latency=_tier_latency(tier, rate),
                request_per_s=rate,
                memory_mb=tier.spec.memory_mb,
                connection_per_s=copies * _value(tier.connections_per_copy),
                token_hold_s=hold,
                tokens=tier.tokens,
                card_s=_card_s(tier),
                mechanisms=MECHANISMS if state.spare_serves else (Mechanism.ara,),
                state=state,
                max_replicas=None if tier.spec.is_copied else 1,
                min_nodes=tier.spec.min_nodes,
            )
        )
        copies = rate
    return tuple(tiers)


def _copy_mb_per_s(tier: TierFit) -> float:
    """Return the slower of a machine's card and its disk."""
    return min(tier.spec.nic_mbps / 8.0, tier.spec.disk_mbps)


def _card_s(tier: TierFit) -> float:
    """Return the seconds of a request on the card; 0 if its load is unknown."""
    kbit = tier.card_kbit
    return 1e-3 * kbit.value / tier.spec.nic_mbps if kbit.value and kbit.sufficient else 0.0


def stated_figure(value: float | None) -> Estimate:
    """Return a stated figure, without a measurement."""
    return Estimate(value, 0, None, least=0)


def is_stated(estimate: Estimate) -> bool:
    """True if the figure was stated, not measured."""
    return estimate.least == 0


def clamp_cv2(cv2: float) -> float:
    """Return the nearest value in the law's range."""
    return min(CV2_RANGE[1], max(CV2_RANGE[0], cv2))


def _value(estimate: Estimate) -> float:
    assert estimate.value is not None  # the caller stops if something is missing
    return estimate.value


def _tier_latency(tier: TierFit, request_per_s: float) -> TierLatency:
    cv2 = tier.service_cv2.value if tier.service_cv2.sufficient else None
    gamma = tier.gamma.value if tier.gamma.sufficient else None
    latency = TierLatency(
        processing_s=_value(tier.processing_s),
        cv2=1.0 if cv2 is None else clamp_cv2(cv2),
        visits=_value(tier.requests_per_copy),
        interference_share=min(0.95, tier.interference_share.value or 0.0),
        gamma=1.0,
        run_s=tier.interference_run_s,
        write_share=_usable_share(tier.write_share, planned=tier.writes_everywhere),
        one_share=_usable_share(tier.one_share),
    )
    if gamma is None:
        return latency
    if is_stated(tier.gamma):
        return replace(latency, gamma=gamma)  # a speed, not a ratio of latencies
    if tier.spec.cpus is None:
        return latency
    load = request_per_s * latency.processing_s / (tier.spec.nodes * tier.spec.cpus)
    return replace(latency, gamma=speed_under_interference(latency, tier.spec.cpus, load, gamma))


def _usable_share(share: Estimate, *, planned: bool = True) -> float:
    """Return a share of the requests; 0 if it is unknown or not planned with."""
    if not share.sufficient or not (planned or is_stated(share)):
        return 0.0
    return share.value or 0.0


def speed_under_interference(
    tier: TierLatency, cores: float, load: float, latency_ratio: float
) -> float:
    """Return the speed gamma whose mean stay R(load / gamma) explains quiet / disturbed latency.

    Parameters: load rho of the undisturbed server in [0, 1); latency_ratio in (0, 1].
    Returns: gamma in [latency_ratio, 1]; queueing is part of the slowdown that latencies show.
    On one core: gamma = rho + ratio (1 - rho).
    """
    if not load < 1:
        return latency_ratio
    disturbed_s = mean_stay_s(tier, cores, load, 1.0) / latency_ratio
    low, high = max(latency_ratio, load / 0.97), 1.0
    if low >= high:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if mean_stay_s(tier, cores, load / middle, middle) > disturbed_s:
            low = middle
        else:
            high = middle
    return high
