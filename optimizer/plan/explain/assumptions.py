"""Assumptions of a plan, the most decisive first."""

from __future__ import annotations

from collections.abc import Sequence

from core.units import HOURS_PER_MONTH
from core.vocabulary import Scheme
from optimizer.fit import ServiceFit
from optimizer.plan.explain.state import state_assumptions
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.demand import is_stated
from optimizer.plan.inputs.margin import RECORDED
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.solve.options import usd_when_off
from optimizer.uncertainty import UncertainRates

_LATENCY_MODEL = "optimizer/latency"

# the limits that depend on each group of assumptions
_LIMITS_BEHIND = {
    "capacity": ("utilisation", "collision", "max_nodes"),
    "failures": ("availability", "integrity"),
    "latency": ("latency", "degraded"),
    "prices": (),
}


def assumptions(request: PlanRequest, binding: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the plan's assumptions, sorted.

    First come those of the most expensive limit (the first of `binding`), and in each group those
    without a measurement.
    """
    case = request.case
    groups = {
        "capacity": [*request.carried, *_capacity_assumptions(case, request.service)],
        "failures": [
            *_shock_assumptions(case),
            *state_assumptions(request),
            *request.remarks,
            *_failure_assumptions(case, request.rates),
        ],
        "latency": _latency_assumptions(case),
        "prices": _price_assumptions(case),
    }
    dearest = [text.partition(":")[0] for text in binding]

    def rank(group: str) -> int:
        places = [dearest.index(family) for family in _LIMITS_BEHIND[group] if family in dearest]
        return min(places, default=len(dearest))

    order = sorted(groups, key=rank)
    certain = _confidence_assumptions(request)
    return (*groups[order[0]], *certain, *(text for name in order[1:] for text in groups[name]))


def _confidence_assumptions(request: PlanRequest) -> list[str]:
    confidence, level = request.case.slo.confidence, request.level
    if not request.figures or confidence is None or level is None:
        return []
    names, rates = ", ".join(request.figures), request.rates
    text = (
        f"{names}: uncertain; each is planned with what it does not exceed with probability "
        f"{level:.4g}"
    )
    if rates is not None and rates.uncertain and not rates.monotone:
        return [f"{text}. A crash ends a limp, so fewer crashes may be worse: this is no bound"]
    return [f"{text}, so that all limits are kept with at least {confidence:g}"]


def _capacity_assumptions(case: Case, service: ServiceFit) -> list[str]:
    if case.measured is not None:
        caps = ", ".join(f"{t.spec.name} {t.spec.cpus:g}" for t in service.tiers if t.spec.cpus)
        speed = f"one core of the measured host (caps in the run: {caps} cores)"
    else:
        speed = "the core that processing_s is stated for"
    texts = [f"capacity scales with vCPUs: one vCPU is as fast as {speed}"]
    instances = case.book.instances(case.region)
    if speeds := {
        instance.type_name: instance.speed for instance in instances if instance.speed != 1.0
    }:
        listed = ", ".join(f"{name} {value:g}" for name, value in sorted(speeds.items()))
        texts[0] += f"; but these, as stated, times {listed}"
    calibration = service.calibration
    if calibration and not is_stated(service.pages_per_s):
        texts.append(
            f"the demand: {calibration['rate_per_s']:g}/s used {calibration['utilisation']:.0%} "
            f"of the CPU of {calibration['tier']} in the run, and so depends on that host and "
            "that fleet"
        )
    if any(i.baseline_share < 1 for i in case.book.instances(case.region)):
        texts.append(
            "burstable types (t3): sustained load is held against the baseline share, single "
            "requests run at full speed (CPU credits suffice while the load is below the baseline)"
        )
    texts += _card_assumptions(case, service)
    memory = "a machine needs the tier's memory"
    if case.headroom_mb:
        memory += f" and {case.headroom_mb:g} MB more for its system"
    return [*texts, memory]


def _card_assumptions(case: Case, service: ServiceFit) -> list[str]:
    pairs = list(zip(service.tiers, case.tiers, strict=True))
    loads = ", ".join(
        f"{tier.spec.name} {tier.card_kbit.value:.3g} kbit of {tier.spec.nic_mbps:g} Mbit/s"
        for tier, demand in pairs
        if demand.card_s
    )
    silent = ", ".join(tier.spec.name for tier, demand in pairs if not demand.card_s)
    return _applicable(
        (loads, f"network cards are as in the run, and a copy takes them as it did ({loads})"),
        (silent, f"network cards are never full: not in the plan of {silent}"),
    )


def _shock_assumptions(case: Case) -> list[str]:
    share, nodes = case.rates.common_cause, case.rates.common_cause_nodes
    if not share:
        return []
    nodes_hit = "all nodes of a tier" if nodes is None else f"{nodes} of a tier's nodes at random"
    return [
        f"{share:.0%} of crashes come in common shocks, each of {nodes_hit}: stated, not measured"
    ]


def _failure_assumptions(case: Case, uncertain: UncertainRates | None) -> list[str]:
    rates, on_prem = case.rates, case.scheme == Scheme.on_prem
    unsure = sorted(uncertain.uncertain) if uncertain and case.slo.confidence is None else []
    names = ", ".join(domain.name for domain in case.domains)
    return _applicable(
        (unsure, f"{', '.join(unsure)}: uncertain, planned with their posterior means (no "
         "confidence was asked)"),
        (not case.domains, "tiers fail independently of each other"),
        (case.domains, f"domains ({names}) fail independently of each other and of the machines in "
         "them, and are up or dark as in the long run; tiers share them, which makes the product "
         "over the tiers a lower bound"),
        (case.domains, "machines of a dark domain are down until it is back: standbys elsewhere "
         "take over, new ones are not bought meanwhile"),
        (case.domains, "machines stand as `domains` says: fleet.tfvars has no key for it, so place "
         "them so"),
        (not rates.common_cause, "nodes fail independently of each other"),
        (on_prem and not rates.standby_fraction, "standby nodes in a pool do not fail"),
        (on_prem and rates.repair_s is not None, "a repaired machine returns to service (ara) or "
         "to its pool (pf): a tier with a pool of 0 is never repaired, as in PCRAFT's Fig. 1(a)"),
        (not on_prem, "in the cloud a crashed node is replaced by itself: passive failover there "
         "is active route anywhere without extra nodes"),
        (case.slo.degraded, "degraded: one tier at a time; active extra nodes stand in for lost "
         "ones, standbys do not, and a limping server is not taken out"),
    )  # fmt: skip


def _applicable(*texts: tuple[object, str]) -> list[str]:
    """Return the texts whose condition holds."""
    return [text for holds, text in texts if holds]


def _latency_assumptions(case: Case) -> list[str]:
    if not case.slo.latency_ms:
        return []
    texts = ["latency is planned for the needed nodes, extra and standby ones are not counted on"]
    if any(tier.latency.interference_share for tier in case.tiers):
        as_in = "as they disturbed the measured one" if case.measured else "as stated"
        texts.append(f"neighbours disturb the planned fleet {as_in}")
    if case.measured is None:
        record = " and ".join(
            f"p{q} {min(RECORDED[q]) - 1:+.0%} to {max(RECORDED[q]) - 1:+.0%}"
            for q in case.slo.latency_ms
        )
        return [
            f"latency: the model of {_LATENCY_MODEL}, calibrated by no measurement (off by "
            f"{record} where it was held against one)",
            *texts,
        ]
    factors = "; ".join(
        f"r = {replicas}: " + ", ".join(f"p{q} x {v:.2f}" for q, v in f.by_percentile.items())
        for replicas, f in case.latency.factors.items()
        if f.by_percentile
    )
    return [
        f"latency of fleets that were not measured: the model of {_LATENCY_MODEL}, times measured "
        f"/ modelled of the arms where that is above 1 ({factors or 'no arm could be calibrated'})",
        *texts,
    ]


def _disk_assumptions(case: Case) -> list[str]:
    disks = any(tier.disk_usd for tier in case.tiers)
    traffic = [tier.name for tier in case.tiers if tier.traffic_usd]
    free = ["arbiters", *_applicable((not disks, "storage"), (not traffic, "traffic"))]
    return _applicable(
        (free, f"{_join(free)} {'is' if len(free) == 1 else 'are'} not in the cost"),
        (disks, "each machine, standbys included, has the disk that its tier states"),
        (traffic, f"traffic to {_join(traffic)} is in the cost at the mean load: a copy's kbit "
         "in the fuller direction, once; arbiters choose machines whatever their zone"),
    )  # fmt: skip


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _price_assumptions(case: Case) -> list[str]:
    machines = case.book.instances(case.region)
    ways = sorted({machine.purchase for machine in machines} - {"on-demand"})
    on_prem = case.scheme == Scheme.on_prem
    as_active = all(usd_when_off(machine) == machine.usd_per_month for machine in machines)
    return [
        f"prices: {case.book.source}; {HOURS_PER_MONTH:g} h a month",
        *_disk_assumptions(case),
        *_applicable(
            (ways, f"{', '.join(ways)}: discounts as stated, for machines of every hour"),
            (any(machine.interruptions_per_year for machine in machines), "a machine that is taken "
             "away (spot) is a crash more, independent of the others but for the stated common "
             "cause, "
             "and another one can be had"),
            (on_prem and not case.book.costs, "on-premises machines are priced as on-demand "
             "instances"),
            (on_prem and as_active, "a standby costs as much as an active machine: the book has "
             "no other price"),
            (on_prem and not as_active, "a standby costs what a machine that is off costs: all "
             "but its power"),
        ),
    ]  # fmt: skip
