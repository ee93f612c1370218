"""Checked requests: from a measured service, a plan.toml, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path as FilePath
from typing import Any, TypedDict, Unpack

from core.config_file import ConfigFile
from core.errors import InputError
from core.vocabulary import Scheme
from optimizer.availability import FailureRates
from optimizer.availability.unused_rates import unused_rates
from optimizer.fit import Estimate, ServiceFit, fit, read_results
from optimizer.plan.inputs.capacity import with_capacities
from optimizer.plan.inputs.case import Case, Slo, slo_from
from optimizer.plan.inputs.declared import book_of, check_first, merged, region_of, stated_service
from optimizer.plan.inputs.demand import demands
from optimizer.plan.inputs.disks_and_traffic import priced
from optimizer.plan.inputs.evidence import LEAST_REQUESTS, thin_percentiles
from optimizer.plan.inputs.hardening import hardening_of
from optimizer.plan.inputs.hosts import Host
from optimizer.plan.inputs.load import Load
from optimizer.plan.inputs.margin import level_of
from optimizer.plan.inputs.performability import bound_of
from optimizer.plan.inputs.plan_file import Declared, PlanFile, Present
from optimizer.plan.inputs.purchase import with_purchases, with_speeds
from optimizer.plan.inputs.remedy import check_remedies
from optimizer.plan.inputs.schedule import DeclaredSchedule
from optimizer.plan.inputs.state import check_state, with_state
from optimizer.plan.inputs.variants import Hardening
from optimizer.plan.solve.options import Limits, TierDemand, rates_of
from optimizer.prices import PriceBook
from optimizer.uncertainty import UncertainRates, rates_from

_DEFAULT_RATES = {
    "crash_per_year": "crash rate {:g} per node and year (PCRAFT)",
    "failover_s": "fail-over takes {:g} s on average (PCRAFT)",
    "repair_s": "no repair of broken nodes within the year (PCRAFT's case without repair)",
}


@dataclass(frozen=True)
class PlanRequest:
    """A checked question: the case, the service behind it, and where its figures are from."""

    case: Case
    service: ServiceFit
    mode: str  # results | plan.toml | results and plan.toml
    stated: tuple[str, ...] = ()  # figures of plan.toml that stand in for measured ones
    remarks: tuple[str, ...] = ()  # of failures, assumed on the way here
    carried: tuple[str, ...] = ()  # what nodes carry, from capacity runs
    level: float | None = None  # of each uncertain figure
    rates: UncertainRates | None = None
    present: Mapping[str, Present] = field(default_factory=dict)  # tiers as they are, stated
    load: Load = field(default_factory=Load)
    schedule: DeclaredSchedule | None = None
    hosts: tuple[Host, ...] = ()  # servers that the tiers' machines share
    figures: tuple[str, ...] = ()  # those that are uncertain
    hardening: Hardening | None = None  # variants to choose from, and what they have to keep
    missing: tuple[str, ...] = ()  # without these there is no plan
    thin: tuple[str, ...] = ()


class Choices(TypedDict, total=False):
    """The choices of a plan beside its SLO.

    scheme cloud | on-prem (default: the run's); region of the price book (default us-east-1, or the
    only one that the book has); rates as in a plan.toml (default: the run's, else PCRAFT's); book
    (default: on-prem or ec2, by the scheme).
    """

    scheme: str | None
    region: str | None
    limits: Limits | None
    rates: Mapping[str, Any] | FailureRates | None
    book: PriceBook | None


def request_for_service(
    service: ServiceFit,
    slo: Mapping[str, Any],
    **choices: Unpack[Choices],
) -> PlanRequest:
    """Return the checked request for a fitted service, with `slo`."""
    rates, book = choices.get("rates"), choices.get("book")
    scheme = choices.get("scheme") or service.scheme
    service = replace(service, scheme=scheme)
    if book is None:
        book = book_of(None, service.scheme, FilePath())
    stated: Mapping[str, Any] = {}
    if isinstance(rates, FailureRates):
        known: UncertainRates = _certain(rates)
        remarks: tuple[str, ...] = ()
    else:
        stated = {**service.stated_rates, **(rates or {})}
        known, remarks = _stated_rates(stated, service.scheme)
    return _request(
        service, service, slo_from(slo), book, choices.get("region"),
        choices.get("limits") or Limits(), known,
        mode="results", remarks=(*remarks, *_idle(stated, service.scheme)),
    )  # fmt: skip


def request_from_plan_file(file: PlanFile, results: FilePath | None = None) -> PlanRequest:
    """Return the checked request of a plan.toml."""
    file, carried = with_capacities(file)
    plan = file.stated
    measured = None if results is None else fit(read_results(FilePath(results)))
    service, said_instead = (
        (stated_service(file), ()) if measured is None else merged(measured, file)
    )
    given = {**service.stated_rates, **plan.rates}
    known, remarks = _stated_rates(given, service.scheme)
    book = book_of(plan.prices.book, service.scheme, file.folder)
    region = region_of(book, plan.prices.region)
    if plan.prices.purchase and book.costs:
        raise file.source.error(
            "prices", "purchase", expected="a price book of rented machines", got="owned ones"
        )
    _check_names(file, book, region)
    if plan.prices.speeds and plan.slo.latency_ms:
        raise file.source.error(
            "prices", "speeds", expected="no latency limits beside it, whose law is of equal cores",
            got="both", hint="Leave the speeds, or p95_ms and p99_ms, out.",
        )  # fmt: skip
    with file.source.naming("prices", "speeds"):
        book = with_speeds(book, region, plan.prices.speeds)
    with file.source.naming("prices", "purchase"):
        book = with_purchases(book, region, plan.prices.purchase)
    asked = _request(
        service, measured, plan.slo, book, region, plan.limits, known,
        mode="plan.toml" if measured is None else "results and plan.toml",
        remarks=(*file.remarks, *remarks, *_idle(given, service.scheme)),
        file=file,
    )  # fmt: skip
    asked = replace(_promised(asked, file), stated=said_instead, carried=carried)
    hardening = hardening_of(file, asked.case.tiers)
    if hardening is None:
        return asked
    return replace(asked, hardening=hardening, remarks=(*asked.remarks, *hardening.remarks))


def _promised(asked: PlanRequest, file: PlanFile) -> PlanRequest:
    """Return the request with the bound of `[slo.performability]`, if there is one."""
    wanted = file.stated.slo.performability
    if wanted is None:
        return asked
    place = file.source.place("slo", "performability")
    names = [tier.name for tier in asked.case.tiers]
    if names and wanted.tier not in names:
        raise InputError(
            file.source.place("slo", "performability", "tier"),
            expected=f"one of the tiers ({', '.join(names)})", got=wanted.tier,
        )  # fmt: skip
    bound = bound_of(wanted, file.folder, place)
    case = replace(asked.case, users=bound)
    return replace(asked, case=case, remarks=(*asked.remarks, bound.remark))


def _request(
    service: ServiceFit,
    measured: ServiceFit | None,
    slo: Slo,
    book: PriceBook,
    region: str | None,
    limits: Limits,
    rates: UncertainRates,
    *,
    mode: str,
    remarks: tuple[str, ...],
    file: PlanFile | None = None,
) -> PlanRequest:
    """One way in for all: the case, or what is missing for it."""
    missing = (*service.missing, *_missing_latency(measured, slo))
    plan = file.stated if file is not None else None
    load = (plan.load if plan else None) or Load()
    demand = _with_spread(service.pages_per_s, load)
    figures = _uncertain_figures(rates, demand, slo)
    level = level_of(slo.confidence, len(figures))
    if slo.confidence is not None and not figures and not missing:
        raise InputError(
            file.source.place("slo", "confidence") if file is not None else "slo.confidence",
            expected="an uncertain input: a latency limit, observed rates, the demand",
            got="exact inputs only",
            hint="Leave it out, or state the observations (plan.toml [rates], [load] spread).",
        )
    planned = replace(service, pages_per_s=_at_level(demand, level, load.factor))
    case = Case(
        tiers=() if missing else _priced(_chosen(demands(planned), plan), service, plan, load),
        slo=slo,
        scheme=service.scheme,
        region=region_of(book, region),
        book=book,
        limits=limits,
        rates=rates.mean() if level is None else rates.at_level(level),
        policy=(plan.policy if plan else None) or "tad",
        measured=measured if measured is not None and not measured.missing else None,
        level=level if slo.latency_ms else None,
        remedies=tuple(plan.remedies) if plan else (),
        domains=tuple(plan.domains) if plan else (),
        packed=bool(plan and plan.hosts),
    )
    if file is not None:
        check_first(file.source, service, slo)
        if load.spread and slo.confidence is None:
            raise file.source.error(
                "load", "spread", expected="[slo] confidence beside it", got="none",
                hint="State the confidence, or leave the spread out.",
            )  # fmt: skip
        check_remedies(case.remedies, case.rates, slo.degraded, file.source)
        named = {tier.name: tier for tier in case.tiers}
        check_state(file, named, available=slo.availability is not None)
        _check_traffic(file, service)
        _check_products(file.source, case)
        _check_schedule(file, case)
        if plan is not None and plan.hosts and case.scheme != Scheme.on_prem:
            raise file.source.error("hosts", expected="the scheme on-prem", got=case.scheme)
        _check_types(file, case)
    book.instances(case.region)  # an unknown region is refused before anything is computed
    case.check_zero_load(file.source if file is not None else None)
    return PlanRequest(
        case=case,
        service=service,
        mode=mode,
        remarks=remarks,
        rates=rates,
        load=load,
        schedule=plan.schedule if plan else None,
        hosts=tuple(plan.hosts) if plan else (),
        present={t.name: t.present for t in plan.tiers if t.present is not None} if plan else {},
        figures=figures,
        level=level,
        missing=missing,
        thin=(*service.thin, *thin_percentiles(measured, slo.latency_ms)),
    )


def _check_names(file: PlanFile, book: PriceBook, region: str) -> None:
    """Raises InputError for a region that the book does not have, and for types that the region
    does not have; a way to pay is no part of a type's name."""
    source, plan = file.source, file.stated
    stated = source.values.get("prices", {}).get("region") == plan.prices.region
    try:
        book.instances(region)
    except InputError as error:
        place = source.place("prices", "region") if stated else "--region"
        raise InputError(place, expected=error.expected, got=error.got, hint=error.hint) from error
    quotas = plan.schedule.quotas if plan.schedule is not None else []
    lists: dict[tuple[str, ...], Sequence[Any]] = {
        ("prices", "speeds"): plan.prices.speeds,
        ("prices", "purchase"): plan.prices.purchase,
        ("schedule", "quotas"): quotas,
        ("tiers",): plan.tiers,
    }
    for key, tables in lists.items():
        for number, table in enumerate(tables):
            for name in table.instance_types or ():
                with source.naming(*key, number, "instance_types"):
                    book.instance(region, name)


def _check_types(file: PlanFile, case: Case) -> None:
    """Raises InputError for instance types that a tier's software is not built for, and for present
    ones that cannot be bought."""
    for number, tier in enumerate(file.stated.tiers):
        if tier.present is not None:
            with file.source.naming("tiers", number, "present", "instance_type"):
                case.book.instance(case.region, tier.present.instance_type)
        built = tier.arch or ["x86_64"]
        for name in tier.instance_types or ():
            if (arch := case.book.instance(case.region, name).arch) not in built:
                raise file.source.error(
                    "tiers", number, "instance_types",
                    expected=f"types of {' or '.join(built)}, for which it is built",
                    got=f"{name}, {arch}", hint=f'State arch = ["{arch}"] if it runs there, too.',
                )  # fmt: skip


def _check_products(source: ConfigFile, case: Case) -> None:
    """Raises InputError for rates that together leave the bounds of one."""
    with source.naming("rates", "crash_per_year"):
        for one in case.book.instances(case.region):
            rates_of(case.rates, one)
    for number, domain in enumerate(case.domains):
        with source.naming("domains", number, "beta"):
            domain.level(case.rates.crash_per_year)


def _check_traffic(file: PlanFile, service: ServiceFit) -> None:
    """Raises InputError for a price of traffic where nobody says how much there is of it."""
    price = file.stated.prices.traffic_usd_per_gb
    seen = [tier.card_kbit for tier in service.tiers]
    if price is not None and not any(kbit.value and kbit.sufficient for kbit in seen):
        raise file.source.error(
            "prices", "traffic_usd_per_gb", expected="kbit_per_copy of a tier beside it",
            got="none", hint="State it, or leave the price out.",
        )  # fmt: skip


def _check_schedule(file: PlanFile, case: Case) -> None:
    """Raises InputError for a schedule of owned machines, or of some that the run saw written
    to."""
    stated = file.stated.schedule
    written = [tier for tier in case.tiers if tier.has_state]
    if stated is not None and written:
        raise file.source.error(
            "schedule", expected=f"it without writes to {written[0].name}, which no hour moves",
            got=f"{written[0].latency.write_share:.1%} in the run",
            hint="Leave it out, or state writes = 0 of that tier.",
        )  # fmt: skip
    if stated is not None and case.scheme != Scheme.cloud:
        raise file.source.error(
            "schedule", expected="rented machines (scheme = cloud)", got=case.scheme,
            hint="Leave it out: an owned machine costs the same in every hour.",
        )  # fmt: skip


def _uncertain_figures(rates: UncertainRates, demand: Estimate, slo: Slo) -> tuple[str, ...]:
    """Return the uncertain inputs that affect this SLO."""
    found = sorted(rates.uncertain) if slo.availability is not None else []
    if demand.spread:
        found.append("arrival_per_s")
    if slo.latency_ms:
        found.append("latency")
    return tuple(found)


def _with_spread(demand: Estimate, load: Load) -> Estimate:
    """Return the demand with its stated spread."""
    if load.spread is None or demand.value is None:
        return demand
    return replace(demand, spread=load.spread * demand.value)


def _at_level(demand: Estimate, level: float | None, factor: float) -> Estimate:
    """Return the demand that is not exceeded with that probability, for the planned load.

    Its error is taken as normal. The factor leads from today's mean to the planned load.
    """
    if demand.value is None:
        return demand
    more = 0.0
    if level is not None and demand.spread:
        from scipy.special import ndtri

        more = max(0.0, float(ndtri(level))) * demand.spread
    return replace(demand, value=factor * (demand.value + more))


def _chosen(tiers: tuple[TierDemand, ...], plan: Declared | None) -> tuple[TierDemand, ...]:
    """Return the demands with the mechanisms, instance types and data that plan.toml states."""
    stated = {tier.name: tier for tier in plan.tiers} if plan else {}
    tiers = tuple(
        with_state(tier, stated[tier.name]) if tier.name in stated else tier for tier in tiers
    )
    return tuple(
        replace(
            tier,
            mechanisms=stated[tier.name].mechanisms or tier.mechanisms,
            instance_types=stated[tier.name].instance_types,
            min_nodes=stated[tier.name].min_nodes or 1,
            arch=tuple(stated[tier.name].arch or tier.arch),
        )
        if tier.name in stated
        else tier
        for tier in tiers
    )


def _priced(
    tiers: tuple[TierDemand, ...], service: ServiceFit, plan: Declared | None, load: Load
) -> tuple[TierDemand, ...]:
    """Return the demands with the prices of disks and traffic in plan.toml."""
    if plan is None:
        return tiers
    stated = {tier.name: tier for tier in plan.tiers}
    return tuple(
        priced(tier, fit, stated.get(tier.name), plan, load.highest)
        for tier, fit in zip(tiers, service.tiers, strict=True)
    )


def _stated_rates(stated: Mapping[str, Any], scheme: str) -> tuple[UncertainRates, tuple[str, ...]]:
    """Return the rates, and those that PCRAFT's defaults replaced."""
    given = {key: value for key, value in stated.items() if value is not None}
    defaults = FailureRates()
    remarks = tuple(
        f"{text.format(getattr(defaults, key))}: a default, not measured"
        for key, text in _DEFAULT_RATES.items()
        if key not in given and not (key == "repair_s" and scheme == Scheme.cloud)
    )
    return rates_from(given), (*remarks, *_from_failovers(given))


def _idle(stated: Mapping[str, Any], scheme: str) -> tuple[str, ...]:
    """Figures that a run or a file brings along, and that change nothing here."""
    known = {key: value for key, value in stated.items() if value is not None}
    return tuple(
        f"{key}: without effect; expected {expected}"
        for key, expected in unused_rates(known, scheme=scheme)
    )


def _from_failovers(given: Mapping[str, Any]) -> list[str]:
    """Times that are samples, and the use of a run's own repairs."""
    found = []
    for key in ("failover_s", "repair_s"):
        value = given.get(key)
        if isinstance(value, Mapping) and (samples := value.get("samples")):
            mean_s = math.fsum(samples) / len(samples)
            found.append(f"{key}: {len(samples)} samples, mean {mean_s:.3g} s")
            if key == "repair_s":
                found[-1] += "; a run's repairs take what its design says, so state your own"
    return found


def _certain(rates: FailureRates) -> UncertainRates:
    values = {field.name: getattr(rates, field.name) for field in fields(rates)}
    three = {key: values.pop(key) for key in _DEFAULT_RATES}
    return UncertainRates(**three, others=values)


def _missing_latency(measured: ServiceFit | None, slo: Slo) -> list[str]:
    """Report that no arm has enough requests to calibrate the latency."""
    if measured is None or not slo.latency_ms:
        return []
    most = max((arm.requests for arm in measured.arms), default=0)
    if most >= LEAST_REQUESTS:
        return []
    return [f"latency: {most} requests in the best measured arm, {LEAST_REQUESTS} needed"]
