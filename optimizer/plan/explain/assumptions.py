"""Assumptions of a plan, the most decisive first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.units import HOURS_PER_MONTH
from core.vocabulary import Scheme
from optimizer.fit import ServiceFit
from optimizer.plan.explain.state import on_state
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.demand import is_stated
from optimizer.plan.inputs.margin import RECORDED
from optimizer.plan.solve.options import usd_when_off

if TYPE_CHECKING:
    from optimizer.plan.inputs.request import PlanRequest
    from optimizer.uncertainty import UncertainRates

_HERE = "optimizer/latency"

# the limits that each group of assumptions stands behind
_BEHIND = {
    "capacity": ("utilisation", "collision", "max_nodes"),
    "failures": ("availability", "integrity"),
    "latency": ("latency", "degraded"),
    "prices": (),
}


def assumptions(asked: PlanRequest, binding: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the plan's assumptions, sorted.

    First come those of the most expensive limit (the first of `binding`), and in each group those
    without a measurement.
    """
    case = asked.case
    groups = {
        "capacity": [*asked.carried, *_on_capacity(case, asked.service)],
        "failures": [
            *_on_shocks(case),
            *on_state(asked),
            *asked.remarks,
            *_on_failures(case, asked.rates),
        ],
        "latency": _on_latency(case),
        "prices": _on_prices(case),
    }
    dearest = [text.partition(":")[0] for text in binding]

    def rank(group: str) -> int:
        places = [dearest.index(family) for family in _BEHIND[group] if family in dearest]
        return min(places, default=len(dearest))

    order = sorted(groups, key=rank)
    certain = _on_confidence(asked)
    return (*groups[order[0]], *certain, *(text for name in order[1:] for text in groups[name]))


def _on_confidence(asked: PlanRequest) -> list[str]:
    confidence, level = asked.case.slo.confidence, asked.level
    if not asked.figures or confidence is None or level is None:
        return []
    names, rates = ", ".join(asked.figures), asked.rates
    text = (
        f"{names}: uncertain; each is planned with what it does not exceed with probability "
        f"{level:.4g}"
    )
    if rates is not None and rates.uncertain and not rates.monotone:
        return [f"{text}. A crash ends a limp, so fewer crashes may be worse: this is no bound"]
    return [f"{text}, so that all limits are kept with at least {confidence:g}"]


def _on_capacity(case: Case, service: ServiceFit) -> list[str]:
    if case.measured is not None:
        caps = ", ".join(f"{t.spec.name} {t.spec.cpus:g}" for t in service.tiers if t.spec.cpus)
        speed = f"one core of the measured host (caps in the run: {caps} cores)"
    else:
        speed = "the core that processing_s is stated for"
    texts = [f"capacity scales with vCPUs: one vCPU is as fast as {speed}"]
    instances = case.book.instances(case.region)
    if other := {one.type_name: one.speed for one in instances if one.speed != 1.0}:
        listed = ", ".join(f"{name} {value:g}" for name, value in sorted(other.items()))
        texts[0] += f"; but these, as stated, times {listed}"
    found = service.calibration
    if found and not is_stated(service.pages_per_s):
        texts.append(
            f"the demand: {found['rate_per_s']:g}/s used {found['utilisation']:.0%} of the CPU of "
            f"{found['tier']} in the run, and so depends on that host and that fleet"
        )
    if any(i.baseline_share < 1 for i in case.book.instances(case.region)):
        texts.append(
            "burstable types (t3): sustained load is held against the baseline share, single "
            "requests run at full speed (CPU credits suffice while the load is below the baseline)"
        )
    texts += _on_cards(case, service)
    memory = "a machine needs the tier's memory"
    if case.headroom_mb:
        memory += f" and {case.headroom_mb:g} MB more for its system"
    return [*texts, memory]


def _on_cards(case: Case, service: ServiceFit) -> list[str]:
    pairs = list(zip(service.tiers, case.tiers, strict=True))
    told = ", ".join(
        f"{tier.spec.name} {tier.card_kbit.value:.3g} kbit of {tier.spec.nic_mbps:g} Mbit/s"
        for tier, demand in pairs
        if demand.card_s
    )
    silent = ", ".join(tier.spec.name for tier, demand in pairs if not demand.card_s)
    return _those(
        (told, f"network cards are as in the run, and a copy takes them as it did ({told})"),
        (silent, f"network cards are never full: not in the plan of {silent}"),
    )


def _on_shocks(case: Case) -> list[str]:
    share, nodes = case.rates.common_cause, case.rates.common_cause_nodes
    if not share:
        return []
    what = "all nodes of a tier" if nodes is None else f"{nodes} of a tier's nodes at random"
    return [f"{share:.0%} of crashes come in common shocks, each of {what}: stated, not measured"]


def _on_failures(case: Case, uncertain: UncertainRates | None) -> list[str]:
    rates, on_prem = case.rates, case.scheme == Scheme.on_prem
    unsure = sorted(uncertain.uncertain) if uncertain and case.slo.confidence is None else []
    names = ", ".join(one.name for one in case.domains)
    return _those(
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


def _those(*texts: tuple[object, str]) -> list[str]:
    """Return the texts whose condition holds."""
    return [text for holds, text in texts if holds]


def _on_latency(case: Case) -> list[str]:
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
            f"latency: the model of {_HERE}, calibrated by no measurement (off by {record} where "
            "it was held against one)",
            *texts,
        ]
    factors = "; ".join(
        f"r = {replicas}: " + ", ".join(f"p{q} x {v:.2f}" for q, v in f.by_percentile.items())
        for replicas, f in case.latency.factors.items()
        if f.by_percentile
    )
    return [
        f"latency of fleets that were not measured: the model of {_HERE}, times measured / "
        f"modelled of the arms where that is above 1 ({factors or 'no arm could be calibrated'})",
        *texts,
    ]


def _on_disks_and_traffic(case: Case) -> list[str]:
    disks = any(tier.disk_usd for tier in case.tiers)
    traffic = [tier.name for tier in case.tiers if tier.traffic_usd]
    free = ["arbiters", *_those((not disks, "storage"), (not traffic, "traffic"))]
    return _those(
        (free, f"{_listed(free)} {'is' if len(free) == 1 else 'are'} not in the cost"),
        (disks, "each machine, standbys included, has the disk that its tier states"),
        (traffic, f"traffic to {_listed(traffic)} is in the cost at the mean load: a copy's kbit "
         "in the fuller direction, once; arbiters choose machines whatever their zone"),
    )  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _on_prices(case: Case) -> list[str]:
    machines = case.book.instances(case.region)
    ways = sorted({one.purchase for one in machines} - {"on-demand"})
    on_prem = case.scheme == Scheme.on_prem
    as_active = all(usd_when_off(one) == one.usd_per_month for one in machines)
    return [
        f"prices: {case.book.source}; {HOURS_PER_MONTH:g} h a month",
        *_on_disks_and_traffic(case),
        *_those(
            (ways, f"{', '.join(ways)}: discounts as stated, for machines of every hour"),
            (any(one.interruptions_per_year for one in machines), "a machine that is taken away "
             "(spot) is a crash more, independent of the others but for the stated common cause, "
             "and another one can be had"),
            (on_prem and not case.book.costs, "on-premises machines are priced as on-demand "
             "instances"),
            (on_prem and as_active, "a standby costs as much as an active machine: the book has "
             "no other price"),
            (on_prem and not as_active, "a standby costs what a machine that is off costs: all "
             "but its power"),
        ),
    ]  # fmt: skip
