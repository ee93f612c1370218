"""Content of a plan: its tiers, predictions, assumptions, inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import NotRequired, TypedDict

from core.errors import SparecraftError
from optimizer.fit import Estimate, ServiceFit, TierFit, TierSpec
from optimizer.plan.explain.curve import AVAILABILITY
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.demand import is_stated
from optimizer.plan.inputs.performability import Bound
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.outcome import Fleet, TierPlan
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.problem import Path, unavailability_of
from optimizer.replication import least_tokens
from optimizer.uncertainty import UncertainRates

# Eq. 6 is a bound: with just as many tokens copies would wait for ever. With a mean of A in use and
# A + 3 sqrt(A) there are, some three of 1000 copies find none free (square-root staffing).
_TOKENS_ABOVE_MEAN = 3.0
_DRAWS = 100
_SEED = 0  # of the draws


class Outlook(TypedDict):
    """`predicted` of plan.json.

    A simulated plan also has the distribution. `law` has the law's figures if they differ from
    the plan's.
    """

    availability: float
    p95_ms: float | None
    p99_ms: float | None
    evidence: str
    performability: NotRequired[Mapping[str, object]]
    degraded: NotRequired[Mapping[str, object]]
    distribution: NotRequired[Mapping[str, object] | None]
    law: NotRequired[Mapping[str, object]]


def tier_plans(case: Case, path: Path) -> dict[str, TierPlan]:
    plans = {}
    for option, tier in zip(path, case.tiers, strict=True):
        hold_s = tier.token_hold_s
        if hold_s is None:
            hold_s = _page_hold_s(case, path)
        per_s = tier.connection_per_s * option.upstream
        in_use = per_s * option.replicas * hold_s
        staffed = per_s * (1.0 + _TOKENS_ABOVE_MEAN / math.sqrt(in_use)) if in_use else per_s
        tokens = least_tokens(staffed, option.replicas, option.needed, hold_s)
        active = option.nodes * option.instance.usd_per_month
        disks, traffic = tier.usd_beside_of(option)
        plans[option.tier] = TierPlan(
            instance_type=option.instance.type_name,
            purchase=option.instance.purchase,
            nodes=option.nodes,
            spares=option.standby,
            mechanism=option.mechanism,
            replicas=option.replicas,
            # One for each core, and no fewer than the run was measured with: fewer are not cheaper.
            tokens=max(tokens, math.ceil(option.instance.vcpus), tier.tokens),
            utilisation=option.utilisation,
            availability=1.0 - option.unavailability,
            needed=option.needed,
            usd_per_month=round(option.usd_per_month, 2),
            collision=option.collision,
            usd_active_per_month=round(active, 2),
            usd_standby_per_month=round(option.usd_per_month - active - disks - traffic, 2),
            usd_disks_per_month=round(disks, 2) if disks else None,
            usd_traffic_per_month=round(traffic, 2) if traffic else None,
            variant=tier.variant,
        )
    return plans


def _page_hold_s(case: Case, path: Path) -> float:
    """Return an upper bound of the time that a page holds a token.

    It is the slowest arm's mean, or else the modelled mean.
    """
    if case.measured is not None and case.measured.arms:
        return max(arm.mean_ms for arm in case.measured.arms) / 1000.0
    return case.latency.page_s(path)


def outlook(case: Case, path: Path) -> Outlook:
    """Return the plan's predictions; `measured` only if exactly this fleet was measured."""
    has_latency = bool(case.slo.latency_ms)
    percentiles = case.latency.middle(case.latency(path)) if has_latency else {}
    measured = case.latency.measured(path) if has_latency else None
    if measured:
        percentiles = dict(measured.measured_ms)
    result: Outlook = {
        "availability": AVAILABILITY.stated(unavailability_of(path)),
        "p95_ms": _round(percentiles.get(95)),
        "p99_ms": _round(percentiles.get(99)),
        "evidence": "measured" if measured else "model",
    }
    if case.users is not None:
        result["performability"] = _promise_kept(case.users, path)
    degraded = case.slo.degraded
    if degraded is None:
        return result
    tiers = {}
    for tier, option in enumerate(path):
        at = case.latency.degraded(path, tier, degraded) if has_latency else {}
        slow = case.latency.middle(at)
        tiers[option.tier] = {
            "servers": degraded.servers(option),
            "utilisation": degraded.utilisation(option),
            "p95_ms": _round(slow.get(95)),
            "p99_ms": _round(slow.get(99)),
        }
    return {**result, "degraded": {"condition": degraded.model_dump(), "while": tiers}}


def _promise_kept(users: Bound, path: Path) -> dict[str, object]:
    """Return the least service of a year of faults, with the plan's machines."""
    machines = sum(o.machines for o in path if o.tier == users.tier)
    return {
        "tier": users.tier,
        "machines": machines,
        "machines_max": users.machines,
        "goodput": users.year.goodput_of(machines),
        "demerits_per_request": users.year.demerits_of(machines),
        "run": users.year.run,
    }


def margin_of(case: Case, figures: Sequence[str], path: Path) -> dict[str, object] | None:
    """Return the margin of the latency limits for the law's error; None without such limits."""
    if not case.slo.latency_ms:
        return None
    at = case.latency(path)
    middle = case.latency.middle(at)
    body: dict[str, object] = {
        "confidence": case.slo.confidence,
        "level": case.level,
        "uncertain": list(figures),
    }
    for q, limit_ms in case.slo.latency_ms.items():
        error = case.latency.errors[q]
        body[f"p{q}_ms"] = {
            "predicted_ms": _round(middle[q]),
            "at_confidence_ms": _round(at[q]),
            "factor": round(case.latency.margins[q], 4),
            "log_spread": round(error.spread, 4),
            "freedom": error.freedom,
            "source": error.source,
            "probability_kept": round(error.probability_within(middle[q], limit_ms), 4),
        }
    return body


def confidence_of(
    case: Case, rates: UncertainRates | None, path: Path, deadline: Deadline
) -> dict[str, object] | None:
    """Return the probability that the availability target is kept, over draws of uncertain rates.

    None without uncertain rates. Its figures are None if the time ends before all draws are solved.
    """
    if rates is None or not rates.uncertain:
        return None
    import numpy as np

    target = case.slo.availability
    availabilities: list[float] = []
    with suppress(SparecraftError):
        for draw in rates.sample(np.random.default_rng(_SEED), _DRAWS):
            deadline.check()
            availabilities.append(math.prod(1.0 - case.unavailability(o, draw) for o in path))
    is_complete = len(availabilities) == _DRAWS
    share_kept = sum(value >= (target or 0.0) for value in availabilities) / _DRAWS
    return {
        "asked": case.slo.confidence,
        "uncertain": sorted(rates.uncertain),
        "planned_with": {name: getattr(case.rates, name) for name in sorted(rates.uncertain)},
        "draws": len(availabilities),
        "probability_kept": share_kept if is_complete and target is not None else None,
        "availability_p05": float(np.quantile(availabilities, 0.05)) if is_complete else None,
        "availability_p50": float(np.quantile(availabilities, 0.5)) if is_complete else None,
    }


def _round(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 2)


def fleet_of(service: ServiceFit, case: Case, path: Path) -> Fleet:
    """Return the variables of fleet.tfvars beside the tiers' plans."""
    tiers = {}
    for option, tier, demand in zip(path, service.tiers, case.tiers, strict=True):
        size = {"cpus": option.instance.vcpus, "memory_mb": demand.memory_mb}
        tiers[tier.spec.name] = {**_as_it_is(tier.spec), **size}
    specs = [promoter for tier in service.tiers for promoter in tier.spec.promoters]
    return Fleet(
        service.experiment or "planned",
        case.policy,
        tiers,
        {spec.name: _as_it_is(spec) for spec in specs},
    )


def _as_it_is(spec: TierSpec) -> dict[str, object]:
    """Return the variables of a tier of the service."""
    return {
        "role": spec.role,
        "calls": list(spec.calls) or None,
        "nodes": spec.nodes,
        "standby": spec.standby,
        "cpus": spec.cpus,
        "memory_mb": spec.memory_mb,
        "nic_mbps": spec.nic_mbps,
        "disk_mbps": spec.disk_mbps,
        "instance_type": spec.instance_type or None,
    }


def inputs_of(request: PlanRequest) -> dict[str, object]:
    """Return the inputs of the plan, with sample counts and spreads where they were measured."""
    slo, service = request.case.slo, request.service
    return {
        "mode": request.mode,
        "stated": list(request.stated),
        "run": service.run or None,
        "slo": {
            "availability": slo.availability,
            **{f"p{q}_ms": limit for q, limit in slo.latency_ms.items()},
            "confidence": slo.confidence,
            "degraded": None if slo.degraded is None else slo.degraded.model_dump(),
            "integrity": None if slo.integrity is None else slo.integrity.model_dump(),
        },
        "load": request.load.model_dump(),
        "rates": asdict(request.case.rates),
        "limits": request.case.limits.model_dump(),
        "policy": request.case.policy,
        "pages_per_s": _estimate(service.pages_per_s),
        "calibration": _calibration(service),
        "tiers": {t.spec.name: _tier_inputs(t) for t in service.tiers},
        "arms": {
            a.name: {
                "policy": a.policy,
                "replicas": list(a.replicas),
                "requests_of": "without faults",
                "requests": a.requests,
                "failed": a.failed,
                "p95_ms": _estimate(a.p95_ms),
                "p99_ms": _estimate(a.p99_ms),
            }
            for a in service.arms
        },
    }


def _calibration(service: ServiceFit) -> dict[str, object] | None:
    """Return the source of the run's rate, if it was relative to its fleet."""
    calibration = service.calibration
    if calibration is None:
        return None
    return {name: calibration[name] for name in ("utilisation", "tier", "rate_per_s")}


def _tier_inputs(tier: TierFit) -> dict[str, object]:
    figures = (
        *("requests_per_copy", "connections_per_copy", "processing_s", "service_cv2"),
        "card_kbit",
        *("token_hold_s", "interference_share", "gamma", "write_share", "one_share"),
    )
    return {
        "nodes": tier.spec.nodes or None,
        "cpus": tier.spec.cpus,
        **{name: _estimate(getattr(tier, name)) for name in figures},
    }


def _estimate(value: Estimate) -> dict[str, object]:
    return {
        "value": value.value,
        "samples": value.samples,
        "spread": value.spread,
        "sufficient": value.sufficient,
        "source": "stated" if is_stated(value) else "measured",
    }
