"""Warnings for the reader of a plan, if they apply."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.fit import ServiceFit
from optimizer.latency.station import POLICIES
from optimizer.plan.inputs.case import Slo
from optimizer.plan.inputs.schedule import DeclaredSchedule
from optimizer.plan.solve.options import TierDemand
from optimizer.plan.solve.problem import Path
from optimizer.prices import PriceBook

PRICES_DAYS_MAX = 180
_FACTOR_MAX = 3.0  # measured over modelled
_DRAWN_SHORT = 0.06  # shortfall of 100 draws by chance: twice their standard error
_LOAD_MOST = 0.6  # highest load for the latency law, for tiers of few machines
_FEW_MACHINES = 10
_SURE = 0.9  # probability, below which a limit has no margin


def warn_of_prices(book: PriceBook, today: datetime.date | None) -> tuple[str, ...]:
    """Warn of old prices."""
    if today is None:
        return ()
    days = (today - datetime.date.fromisoformat(book.as_of)).days
    if days <= PRICES_DAYS_MAX:
        return ()
    remedy = (
        "put your own figures in a copy of the book"
        if book.costs
        else "`sparecraft prices refresh` asks AWS for today's"
    )
    return (f"prices are {days} days old ({book.as_of}): {remedy}",)


def warn_of_quotas(schedule: DeclaredSchedule | None, path: Path) -> tuple[str, ...]:
    """Warn of quotas that the standing fleet exceeds; they limit only the schedule."""
    texts = []
    for number, stated in enumerate(schedule.quotas if schedule else (), start=1):
        quota = stated.quota()
        used = math.fsum(quota.of(option.instance) * option.machines for option in path)
        if used > quota.most:
            unit = "vCPUs" if quota.vcpus else "machines"
            texts.append(
                f"quota {number} ({', '.join(sorted(quota.types))}) allows {quota.most:g} {unit}, "
                f"and the standing fleet, which fleet.tfvars has, takes {used:g}: raise it, or "
                "leave these types out of instance_types"
            )
    return tuple(texts)


def warn_of_state(service: ServiceFit, tiers: Sequence[TierDemand], path: Path) -> tuple[str, ...]:
    """Warn of tiers with state, if more machines are counted on than surely serve."""
    texts = []
    for tier, demand, option in zip(service.tiers, tiers, path, strict=True):
        name, role = tier.spec.name, tier.spec.role or "not named"
        if not demand.state.spare_serves and not demand.state.primary:
            texts.append(
                f"tier {name} (role {role}) keeps state of its own: no cold spare is counted, and "
                "its availability is that of reads. What was written may be lost with a machine, "
                "and nothing promotes another"
            )
        if demand.state.kept is None and option.standby and service.run:
            texts.append(
                f"tier {name}: its role {role} does not say what state it keeps; its spares are "
                'counted as if any machine could take a lost one\'s place. Say "state" in role.json'
            )
    return tuple(texts)


def warn_of_calibration(factors: Mapping[int, float]) -> tuple[str, ...]:
    """Warn of a large calibration factor, which shows that the latency model lacks a cause.

    Parameters: factors, measured / modelled of the plan's replicas, by percentile.
    """
    far = {q: factor for q, factor in factors.items() if factor > _FACTOR_MAX}
    if not far:
        return ()
    text = " and ".join(f"p{q} {factor:.1f} times" for q, factor in sorted(far.items()))
    return (
        f"measured was {text} what the latency model says: something is not in it. What is "
        "predicted, and how surely, holds for fleets like the measured one",
    )


def warn_of_unknown(arms: Sequence[str]) -> tuple[str, ...]:
    """Warn of arms with a policy that the latency model does not have: they are no evidence."""
    if not arms:
        return ()
    policies = " and ".join(POLICIES)
    return (
        f"not used to calibrate latencies, which are modelled for {policies}: {', '.join(arms)}",
    )


def warn_of_margin(margin: Mapping[str, Any] | None, slo: Slo) -> tuple[str, ...]:
    """Warn of latency limits that are nearer than the law's error."""
    if margin is None or slo.confidence is not None:
        return ()
    texts = []
    for q, limit_ms in slo.latency_ms.items():
        percentile = margin[f"p{q}_ms"]
        if percentile["probability_kept"] < _SURE:
            texts.append(
                f"p{q} is predicted to be {percentile['predicted_ms']:g} of {limit_ms:g} ms: with "
                "the law's error it is kept with a probability of "
                f"{percentile['probability_kept']:.0%} only. A fleet with a margin: confidence = "
                "0.9 in [slo], or --confidence 0.9"
            )
    return tuple(texts)


def warn_of_decision(simulation: Mapping[str, Any]) -> tuple[str, ...]:
    """Warn that only the law predicts that the latency limits are kept."""
    if simulation["verdict"] == "undecided":
        return (f"undecided, and no claim: {simulation['reason']}",)
    if simulation["verdict"] == "not-simulated" and simulation["reason"]:
        return (f"not simulated: {simulation['reason']}. The latencies are the law's",)
    return ()


def warn_of_load(tiers: Sequence[TierDemand], path: Path) -> tuple[str, ...]:
    """Warn of tiers of few machines that neighbours slow, above the latency law's load range."""
    return tuple(
        f"tier {demand.name}: its {option.needed} machines are used to {option.utilisation:.0%}; "
        f"above {_LOAD_MOST:.0%} the law says too little of so few under neighbours"
        for demand, option in zip(tiers, path, strict=True)
        if option.utilisation > _LOAD_MOST
        and option.needed <= _FEW_MACHINES
        and demand.latency.interference_share > 0.0
        and demand.latency.gamma < 1.0
    )


def warn_of_confidence(confidence: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Warn that the availability target is kept in fewer draws of the rates than requested.

    That is so only beside limping nodes: a crash ends a limp, so rates at their worst are not the
    worst case.
    """
    if confidence is None or confidence["asked"] is None or confidence["probability_kept"] is None:
        return ()
    if confidence["probability_kept"] >= confidence["asked"] - _DRAWN_SHORT:
        return ()
    return (
        f"availability is kept in {confidence['probability_kept']:.0%} of {confidence['draws']:,} "
        f"draws of the rates, not in the {confidence['asked']:.0%} that are asked for: a crash "
        "ends a limp, so the rates that were planned with are not the worst. Ask for a higher "
        "availability",
    )


def warn_of_integrity(integrity: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Warn of tiers whose probabilities have no counts, and so no bound."""
    if integrity is None:
        return ()
    uncounted = [name for name, tier in integrity["tiers"].items() if tier["injections"] is None]
    if not uncounted:
        return ()
    return (
        f"integrity of {', '.join(uncounted)} rests on probabilities without counts: no upper "
        "bound; injections into your own software (kind bitflips) give one",
    )
