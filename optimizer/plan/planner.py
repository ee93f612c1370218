"""From a results folder and an SLO to a plan: the one entry that the runner and the CLI call."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from optimizer.availability import FailureRates
from optimizer.errors import InputError, require_positive, require_share
from optimizer.fit import Estimate, ServiceFit, fit, read_results
from optimizer.plan.evidence import (
    LEAST_REQUESTS,
    CalibratedLatency,
    connection_rates_per_s,
    demands,
    percentile_of,
)
from optimizer.plan.explain import binding, reasons
from optimizer.plan.model import Solution, solve
from optimizer.plan.options import Covers, Limits, Option, TierDemand, fitting, tier_options
from optimizer.plan.outcome import Fleet, Plan, TierPlan
from optimizer.plan.problem import Path, Problem, availability_of
from optimizer.prices import PriceBook, load_prices
from optimizer.replication import least_tokens

_PERCENTILES = {"p95_ms": 95, "p99_ms": 99}
_NOT_OURS = {"max_error_share"}
_HEADROOM_MB = 256.0
_RATES = ("crash_per_year", "failover_s", "repair_s")


def plan_from_results(
    run_dir: FilePath,
    slo: Mapping[str, float],
    *,
    scheme: str | None = None,
    region: str = "us-east-1",
    limits: Limits | None = None,
    rates: Mapping[str, float] | None = None,
    book: PriceBook | None = None,
) -> Plan:
    """The cheapest fleet for the service measured in `run_dir` that meets `slo`.

    Parameters: run_dir a results folder; slo with any of availability (0..1), p95_ms, p99_ms [ms];
    scheme cloud | on-prem (default: the run's); region of the price book; rates with any of
    crash_per_year, failover_s, repair_s (default: the run's, else PCRAFT's).
    Returns: Plan; thin evidence makes it infeasible with `insufficient` filled, not an exception.
    Raises: PlannerError for a folder, SLO or value that cannot be used.
    """
    service = fit(read_results(FilePath(run_dir)))
    return plan_service(
        service, slo, scheme=scheme, region=region, limits=limits, rates=rates, book=book
    )


def plan_service(
    service: ServiceFit,
    slo: Mapping[str, float],
    *,
    scheme: str | None = None,
    region: str = "us-east-1",
    limits: Limits | None = None,
    rates: Mapping[str, float] | None = None,
    book: PriceBook | None = None,
) -> Plan:
    """`plan_from_results` for a service that is already fitted."""
    began_s = time.monotonic()
    availability_min, percentiles = _check_slo(slo)
    limits = limits or Limits()
    scheme = scheme or service.scheme
    failures, said = _failure_rates({**service.stated_rates, **(rates or {})})
    prices = book or load_prices()
    instances = prices.instances(region)
    frame = Plan(False, scheme, region, prices.as_of, inputs=_inputs(service, slo))
    missing = [*service.missing, *_missing_latency(service, percentiles)]
    thin = (*service.thin, *_thin_latency(service, percentiles))
    if missing:
        why = ("the run has not enough evidence to plan from",)
        return replace(frame, insufficient=(*missing, *thin), reasons=why)
    policy = "tad"
    latency = CalibratedLatency(
        service, list(percentiles), _horizon_s(service, percentiles), policy
    )
    tiers = demands(service)
    covers = Covers(failures, scheme, limits)
    problem = Problem(
        options=_options(tiers, instances, covers, limits),
        latency=latency,
        availability_min=availability_min,
        latency_ms_max=percentiles,
        utilisation_max=limits.max_utilisation,
        collision_max=limits.max_collision,
    )
    found = solve(problem)
    frame = replace(
        frame,
        assumptions=(*said, *_assumptions(service, latency, scheme, prices.source)),
        insufficient=thin,
        solver=_solver(found, began_s, problem),
    )
    if found.path is None:
        return replace(frame, reasons=tuple(reasons(problem)))
    return replace(
        frame,
        feasible=True,
        usd_per_month=found.usd_per_month,
        tiers=_tier_plans(service, found.path),
        predicted=_predicted(latency, found.path, bool(percentiles)),
        binding=tuple(binding(problem, found)),
        fleet=_fleet(service, found.path, policy),
    )


def _check_slo(slo: Mapping[str, float]) -> tuple[float | None, dict[int, float]]:
    unknown = set(slo) - {"availability", *_PERCENTILES, *_NOT_OURS}
    if unknown:
        raise InputError(
            f"slo.{sorted(unknown)[0]}",
            expected="one of availability, p95_ms, p99_ms",
            came="an unknown key",
        )
    availability = slo.get("availability")
    if availability is not None:
        require_share("slo.availability", availability, one=False)
        require_positive("slo.availability", availability)
    percentiles = {
        q: require_positive(f"slo.{key}", slo[key])
        for key, q in _PERCENTILES.items()
        if slo.get(key) is not None
    }
    if availability is None and not percentiles:
        raise InputError("slo", expected="availability, p95_ms or p99_ms", came="none of them")
    return availability, percentiles


def _failure_rates(stated: Mapping[str, Any]) -> tuple[FailureRates, list[str]]:
    unknown = set(stated) - set(_RATES)
    if unknown:
        raise InputError(
            f"rates.{sorted(unknown)[0]}",
            expected=f"one of {', '.join(_RATES)}",
            came="unknown key",
        )
    defaults = FailureRates()
    given = {key: value for key, value in stated.items() if value is not None}
    said = [
        text
        for key, text in (
            (
                "crash_per_year",
                f"crash rate {defaults.crash_per_year:g} per node and year (PCRAFT)",
            ),
            ("failover_s", f"fail-over takes {defaults.failover_s:g} s on average (PCRAFT)"),
            (
                "repair_s",
                "no repair of broken nodes within the year (PCRAFT's case without repair)",
            ),
        )
        if key not in given
    ]
    return FailureRates(**given), [f"{text}: a default, not measured" for text in said]


def _missing_latency(service: ServiceFit, percentiles: Mapping[int, float]) -> list[str]:
    """Without one arm that was asked often enough there is nothing to calibrate the latency by."""
    if not percentiles or any(arm.requests >= LEAST_REQUESTS for arm in service.arms):
        return []
    most = max((arm.requests for arm in service.arms), default=0)
    return [f"latency: {most} requests in the best measured arm, {LEAST_REQUESTS} needed"]


def _thin_latency(service: ServiceFit, percentiles: Mapping[int, float]) -> list[str]:
    """Percentiles with fewer than ten samples beyond them: used, but not to be relied on."""
    return [
        f"arm {arm.name}: p{q} from {found.samples} requests, {found.least} needed for 10 beyond it"
        for arm in service.arms
        for q in percentiles
        if not (found := percentile_of(arm, q)).sufficient
    ]


def _horizon_s(service: ServiceFit, percentiles: Mapping[int, float]) -> float:
    """The grid reaches well beyond the SLO and beyond what was measured."""
    measured = [v for a in service.arms if (v := a.p99_ms.value) is not None]
    return 4.0 * max([*percentiles.values(), *measured, 1.0]) / 1000.0


def _options(
    tiers: Sequence[TierDemand], instances: Sequence[Any], covers: Covers, limits: Limits
) -> tuple[tuple[Option, ...], ...]:
    """Options per tier at every amplification that the tiers above can make."""
    levels, result = {1}, []
    for tier in tiers:
        chosen = fitting(instances, tier, _HEADROOM_MB)
        found: list[Option] = []
        for level in sorted(levels):
            for r in range(1, limits.max_replicas + 1):
                found += tier_options(tier, level, r, chosen, covers, limits)
        levels = {o.upstream * o.replicas for o in found}
        result.append(tuple(found))
    return tuple(result)


def _tier_plans(service: ServiceFit, path: Path) -> dict[str, TierPlan]:
    plans = {}
    for option, tier, rate in zip(
        path, service.tiers, connection_rates_per_s(service), strict=True
    ):
        hold = tier.token_hold_s.value
        hold_s = hold if hold is not None else _page_hold_s(service)
        per_s = rate * option.upstream
        # Eq. 6 is a bound; keep the tokens below the utilisation limit, and a token per core
        tokens = least_tokens(per_s / 0.7, option.replicas, option.needed, hold_s)
        plans[option.tier] = TierPlan(
            instance_type=option.instance.name,
            nodes=option.nodes,
            spares=option.spares,
            mechanism=option.mechanism,
            replicas=option.replicas,
            tokens=max(tokens, option.instance.vcpus),
            utilisation=option.utilisation,
            availability=1.0 - option.unavailability,
            needed=option.needed,
            usd_per_month=round(option.usd_per_month, 2),
            collision=option.collision,
        )
    return plans


def _page_hold_s(service: ServiceFit) -> float:
    """A token is held within a page at most: the slowest arm's mean, if nothing was seen of
    tokens."""
    return max((arm.mean_ms for arm in service.arms), default=0.0) / 1000.0


def _predicted(latency: CalibratedLatency, path: Path, asked: bool) -> dict[str, Any]:
    found = latency(path) if asked else {}
    measured = latency.measured(path) if asked else None
    if measured:
        found = dict(measured.measured_ms)
    return {
        "availability": availability_of(path),
        "p95_ms": _rounded(found.get(95)),
        "p99_ms": _rounded(found.get(99)),
        "evidence": "measured" if measured else "model",
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 2)


def _assumptions(
    service: ServiceFit, latency: CalibratedLatency, scheme: str, source: str
) -> tuple[str, ...]:
    caps = ", ".join(f"{t.spec.name} {t.spec.cpus:g}" for t in service.tiers)
    factors = "; ".join(
        f"r = {replicas}: " + ", ".join(f"p{q} x {v:.2f}" for q, v in f.by_percentile.items())
        for replicas, f in latency.factors.items()
        if f.by_percentile
    )
    texts = [
        f"capacity scales with vCPUs: one vCPU is as fast as one core of the measured host "
        f"(caps in the run: {caps} cores)",
        "burstable t3: sustained load is held against the baseline share, single requests run at "
        "full speed (CPU credits suffice while the load is below the baseline)",
        "neighbours disturb the planned fleet as they disturbed the measured one",
        "nodes fail independently, standby nodes in a pool do not fail; tiers are independent",
        "latency is planned for the needed nodes, extra and spare ones are not counted on",
        f"latency of fleets that were not measured: the model of optimizer/latency, times "
        f"measured / modelled of the arms where that is above 1 "
        f"({factors or 'no arm could be calibrated'})",
        f"a machine needs the tier's memory and {_HEADROOM_MB:g} MB more; arbiters, storage and "
        "traffic are not in the cost",
        f"prices: {source}; 730 h a month",
    ]
    if scheme == "on-prem":
        texts.append("on-premises machines, spares included, are priced as on-demand instances")
    return tuple(texts)


def _fleet(service: ServiceFit, path: Path, policy: str) -> Fleet:
    tiers = {}
    for option, tier in zip(path, service.tiers, strict=True):
        spec = tier.spec
        tiers[spec.name] = {
            "role": spec.role,
            "backend": spec.backend,
            "cpus": option.instance.vcpus,
            "memory_mb": spec.memory_mb,
            "nic_mbps": spec.nic_mbps,
            "disk_mbps": spec.disk_mbps,
        }
    return Fleet(service.experiment or "planned", policy, tiers)


def _solver(found: Solution, began_s: float, problem: Problem) -> dict[str, Any]:
    return {
        "name": "HiGHS through Pyomo",
        "options": sum(len(tier) for tier in problem.options),
        "latency_cuts": found.cuts,
        "solves": found.solves,
        "seconds": round(time.monotonic() - began_s, 2),
        "verified": "all limits evaluated again outside the solver",
    }


def _inputs(service: ServiceFit, slo: Mapping[str, float]) -> dict[str, Any]:
    tiers = {
        t.spec.name: {
            "nodes": t.spec.nodes,
            "cpus": t.spec.cpus,
            "requests_per_copy": _estimate(t.requests_per_copy),
            "connections_per_copy": _estimate(t.connections_per_copy),
            "processing_s": _estimate(t.processing_s),
            "service_cv2": _estimate(t.service_cv2),
            "token_hold_s": _estimate(t.token_hold_s),
            "interference_share": _estimate(t.interference_share),
            "gamma": _estimate(t.gamma),
        }
        for t in service.tiers
    }
    arms = {
        a.name: {
            "policy": a.policy,
            "replicas": list(a.replicas),
            "requests": a.requests,
            "failed": a.failed,
            "p95_ms": _estimate(a.p95_ms),
            "p99_ms": _estimate(a.p99_ms),
        }
        for a in service.arms
    }
    return {
        "run": service.run,
        "slo": {k: v for k, v in slo.items() if k not in _NOT_OURS},
        "pages_per_s": _estimate(service.pages_per_s),
        "tiers": tiers,
        "arms": arms,
    }


def _estimate(value: Estimate) -> dict[str, Any]:
    return {
        "value": value.value,
        "samples": value.samples,
        "spread": value.spread,
        "sufficient": value.sufficient,
    }
