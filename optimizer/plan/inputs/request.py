"""Checked requests: from a measured service, a plan.toml, or both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, TypedDict, Unpack

from core.config_file import ConfigFile, Key
from core.errors import InputError
from core.units import duration
from core.vocabulary import Scheme
from optimizer.availability import FailureRates, TooManyPlacementsError
from optimizer.availability.unused_rates import unused_rates
from optimizer.fit import Estimate, ServiceFit, fit, read_results
from optimizer.plan.inputs.capacity import with_capacities
from optimizer.plan.inputs.case import Case, Slo, slo_from
from optimizer.plan.inputs.declared import (
    book_of,
    check_first,
    merge_stated,
    region_of,
    stated_service,
)
from optimizer.plan.inputs.demand import demands
from optimizer.plan.inputs.disks_and_traffic import price_disks_and_traffic
from optimizer.plan.inputs.evidence import LEAST_REQUESTS, thin_percentiles
from optimizer.plan.inputs.hardening import hardening_of
from optimizer.plan.inputs.hosts import Host
from optimizer.plan.inputs.load import Load
from optimizer.plan.inputs.margin import level_of
from optimizer.plan.inputs.performability import bound_of
from optimizer.plan.inputs.plan_file import Declared, PlanFile, Present
from optimizer.plan.inputs.purchase import Purchase, Speed, with_purchases, with_speeds
from optimizer.plan.inputs.remedy import check_remedies
from optimizer.plan.inputs.schedule import DeclaredQuota, DeclaredSchedule
from optimizer.plan.inputs.state import check_state, with_stated
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
    """A checked request: the case, its service, and the sources of the figures."""

    case: Case
    service: ServiceFit
    mode: str  # results | plan.toml | results and plan.toml
    stated: tuple[str, ...] = ()  # figures of plan.toml that replace measured ones
    remarks: tuple[str, ...] = ()  # assumptions on failures
    carried: tuple[str, ...] = ()  # texts on throughput from capacity runs
    level: float | None = None  # of each uncertain figure
    rates: UncertainRates | None = None
    present: Mapping[str, Present] = field(default_factory=dict)  # stated present machines by tier
    load: Load = field(default_factory=Load)
    schedule: DeclaredSchedule | None = None
    hosts: tuple[Host, ...] = ()  # servers that the tiers' machines share
    figures: tuple[str, ...] = ()  # those that are uncertain
    hardening: Hardening | None = None  # offered variants, and their limits
    missing: tuple[str, ...] = ()  # without these there is no plan
    thin: tuple[str, ...] = ()
    source: ConfigFile | None = field(default=None, compare=False)  # the plan.toml

    def placement_error(self, error: TooManyPlacementsError) -> InputError:
        """Return the error at the line of plan.toml that has the domains."""
        if self.source is None:
            return error
        return error.at(self.source.place("domains", error.level))


class Choices(TypedDict, total=False):
    """The choices of a plan beside its SLO.

    scheme cloud | on-prem (default: the run's); region of the price book (default us-east-1, or the
    only one that the book has); rates as in a plan.toml (default: the run's, else PCRAFT's); book
    (default: on-prem or ec2, by the scheme).
    """

    scheme: str | None
    region: str | None
    limits: Limits | None
    rates: Mapping[str, Any] | None
    book: PriceBook | None


def request_for_service(
    service: ServiceFit,
    slo: Mapping[str, Any],
    **choices: Unpack[Choices],
) -> PlanRequest:
    """Return the checked request for a fitted service, with `slo`."""
    service = replace(service, scheme=choices.get("scheme") or service.scheme)
    book = choices.get("book") or book_of(None, service.scheme, FilePath())
    rates = choices.get("rates") or {}
    stated = {**service.stated_rates, **rates}
    uncertain_rates, remarks = _read_rates(stated, service, "rates" if rates else "")
    plan = Declared(slo=slo_from(slo), limits=choices.get("limits") or Limits())
    return _build_request(
        service, service, plan, book, choices.get("region"), uncertain_rates,
        mode="results", remarks=(*remarks, *_idle_remarks(stated, service.scheme)),
    )  # fmt: skip


def request_from_plan_file(file: PlanFile, results: FilePath | None = None) -> PlanRequest:
    """Return the checked request of a plan.toml."""
    file, carried = with_capacities(file)
    plan = file.stated
    measured = None if results is None else fit(read_results(FilePath(results)))
    service, replaced = (
        (stated_service(file), ()) if measured is None else merge_stated(measured, file)
    )
    stated_rates = {**service.stated_rates, **plan.rates}
    rates, remarks = _read_rates(stated_rates, service)
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
    request = _build_request(
        service, measured, plan, book, region, rates,
        mode="plan.toml" if measured is None else "results and plan.toml",
        remarks=(*file.remarks, *remarks, *_idle_remarks(stated_rates, service.scheme)),
        file=file,
    )  # fmt: skip
    request = replace(_with_promise(request, file), stated=replaced, carried=carried)
    hardening = hardening_of(file, request.case.tiers)
    if hardening is None:
        return request
    return replace(request, hardening=hardening, remarks=(*request.remarks, *hardening.remarks))


def _with_promise(request: PlanRequest, file: PlanFile) -> PlanRequest:
    """Return the request with the bound of `[slo.performability]`, if there is one."""
    promise = file.stated.slo.performability
    if promise is None:
        return request
    place = file.source.place("slo", "performability")
    names = [tier.name for tier in request.case.tiers]
    if names and promise.tier not in names:
        raise InputError(
            file.source.place("slo", "performability", "tier"),
            expected=f"one of the tiers ({', '.join(names)})", got=promise.tier,
        )  # fmt: skip
    bound = bound_of(promise, file.folder, place)
    case = replace(request.case, users=bound)
    return replace(request, case=case, remarks=(*request.remarks, bound.remark))


def _build_request(
    service: ServiceFit,
    measured: ServiceFit | None,
    plan: Declared,
    book: PriceBook,
    region: str | None,
    rates: UncertainRates,
    *,
    mode: str,
    remarks: tuple[str, ...],
    file: PlanFile | None = None,
) -> PlanRequest:
    """Return the request with its case, or with what is missing for one."""
    slo, load = plan.slo, plan.load or Load()
    missing = (*service.missing, *_missing_latency(measured, slo))
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
    planned = replace(service, pages_per_s=_demand_at_level(demand, level, load.factor))
    case = Case(
        tiers=() if missing else _priced_demands(planned, plan, load),
        slo=slo,
        scheme=service.scheme,
        region=region_of(book, region),
        book=book,
        limits=plan.limits,
        rates=rates.mean() if level is None else rates.at_level(level),
        policy=plan.policy or "tad",
        measured=measured if measured is not None and not measured.missing else None,
        level=level if slo.latency_ms else None,
        remedies=tuple(plan.remedies),
        domains=tuple(plan.domains),
        packed=bool(plan.hosts),
    )
    if file is not None:
        check_first(file.source, service, slo)
        if load.spread and slo.confidence is None:
            raise file.source.error(
                "load", "spread", expected="[slo] confidence beside it", got="none",
                hint="State the confidence, or leave the spread out.",
            )  # fmt: skip
        check_remedies(case.remedies, case.rates, slo.degraded, file.source)
        tiers_by_name = {tier.name: tier for tier in case.tiers}
        check_state(file, tiers_by_name, case.rates, available=slo.availability is not None)
        _check_traffic(file, service)
        _check_products(file.source, case)
        _check_schedule(file, case)
        if plan.hosts and case.scheme != Scheme.on_prem:
            raise file.source.error("hosts", expected="the scheme on-prem", got=case.scheme)
        _check_types(file, case)
        _check_types_used(file, case)
    book.instances(case.region)  # an unknown region is refused before anything is computed
    case.check_zero_load(file.source if file is not None else None)
    return PlanRequest(
        case=case,
        service=service,
        mode=mode,
        remarks=remarks,
        rates=rates,
        load=load,
        schedule=plan.schedule,
        hosts=tuple(plan.hosts),
        present={tier.name: tier.present for tier in plan.tiers if tier.present is not None},
        figures=figures,
        level=level,
        missing=missing,
        thin=(*service.thin, *thin_percentiles(measured, slo.latency_ms)),
        source=file.source if file is not None else None,
    )


def _check_names(file: PlanFile, book: PriceBook, region: str) -> None:
    """Raises InputError for a region not in the book, and for types not in the region.

    A purchase option is no part of a type's name.
    """
    source, plan = file.source, file.stated
    stated = source.values.get("prices", {}).get("region") == plan.prices.region
    try:
        book.instances(region)
    except InputError as error:
        raise error.at(source.place("prices", "region") if stated else "--region") from error
    tiers = [(("tiers", number, "instance_types"), t) for number, t in enumerate(plan.tiers)]
    for key, table in (*_tables_by_types(plan), *tiers):
        for name in table.instance_types or ():
            with source.naming(*key):
                book.instance(region, name)


def _tables_by_types(plan: Declared) -> Iterator[tuple[Key, Speed | Purchase | DeclaredQuota]]:
    """Yield the tables that name instance types, each with the key of its types."""
    lists: dict[Key, Sequence[Speed | Purchase | DeclaredQuota]] = {
        ("prices", "speeds"): plan.prices.speeds,
        ("prices", "purchase"): plan.prices.purchase,
        ("schedule", "quotas"): plan.schedule.quotas if plan.schedule is not None else (),
    }
    for key, tables in lists.items():
        for number, table in enumerate(tables):
            yield (*key, number, "instance_types"), table


def _check_types(file: PlanFile, case: Case) -> None:
    """Raises InputError for types that a tier's software is not built for.

    It is also raised for present types that cannot be bought.
    """
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


def _check_types_used(file: PlanFile, case: Case) -> None:
    """Raises InputError for a speed, purchase option or quota whose types no tier may use."""

    def may_be_used(name: str) -> bool:
        arch = case.book.instance(case.region, name).arch
        return any(
            (tier.instance_types is None or name in tier.instance_types) and arch in tier.arch
            for tier in case.tiers
        )

    for key, table in _tables_by_types(file.stated):
        names = table.instance_types
        if names and case.tiers and not any(map(may_be_used, names)):
            raise file.source.error(
                *key, expected="a type that a tier may use (by its instance_types and arch)",
                got=f"{', '.join(names)}, used by none", hint="Leave it out, or allow that type.",
            )  # fmt: skip


def _check_products(source: ConfigFile, case: Case) -> None:
    """Raises InputError for rates whose product is outside the bounds of a rate."""
    with source.naming("rates", "crash_per_year"):
        for instance in case.book.instances(case.region):
            rates_of(case.rates, instance)
    for number, domain in enumerate(case.domains):
        with source.naming("domains", number, "beta"):
            domain.level(case.rates.crash_per_year)


def _check_traffic(file: PlanFile, service: ServiceFit) -> None:
    """Raises InputError for a price of traffic without an amount of traffic."""
    price = file.stated.prices.traffic_usd_per_gb
    traffic = [tier.card_kbit for tier in service.tiers]
    if price is not None and not any(kbit.value and kbit.sufficient for kbit in traffic):
        raise file.source.error(
            "prices", "traffic_usd_per_gb", expected="kbit_per_copy of a tier beside it",
            got="none", hint="State it, or leave the price out.",
        )  # fmt: skip


def _check_schedule(file: PlanFile, case: Case) -> None:
    """Raises InputError for a schedule of owned machines, or of tiers with data or writes."""
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
    figures = sorted(rates.uncertain) if slo.availability is not None else []
    if demand.spread:
        figures.append("arrival_per_s")
    if slo.latency_ms:
        figures.append("latency")
    return tuple(figures)


def _with_spread(demand: Estimate, load: Load) -> Estimate:
    if load.spread is None or demand.value is None:
        return demand
    return replace(demand, spread=load.spread * demand.value)


def _demand_at_level(demand: Estimate, level: float | None, factor: float) -> Estimate:
    """Return the demand that is not exceeded with that probability, for the planned load.

    Its error is taken as normal. The factor leads from today's mean to the planned load.
    """
    if demand.value is None:
        return demand
    margin = 0.0
    if level is not None and demand.spread:
        from scipy.special import ndtri

        margin = max(0.0, float(ndtri(level))) * demand.spread
    return replace(demand, value=factor * (demand.value + margin))


def _priced_demands(service: ServiceFit, plan: Declared, load: Load) -> tuple[TierDemand, ...]:
    """Return the tiers' demands, with the settings and prices of plan.toml.

    The settings are mechanisms, instance types and data; the prices are of disks and traffic.
    """
    stated = {tier.name: tier for tier in plan.tiers}
    demands_planned = []
    for tier, fitted in zip(demands(service), service.tiers, strict=True):
        declared = stated.get(tier.name)
        tier = tier if declared is None else with_stated(tier, declared)
        demands_planned.append(price_disks_and_traffic(tier, fitted, declared, plan, load.highest))
    return tuple(demands_planned)


def _read_rates(
    stated: Mapping[str, Any], service: ServiceFit, place: str = ""
) -> tuple[UncertainRates, tuple[str, ...]]:
    """Return the rates, and remarks on those that are PCRAFT's defaults.

    Parameters: place of the stated rates, by default in the run.
    """
    place = place or ("manifest.json: spec.rates" if service.run else "rates")
    figures = {key: value for key, value in stated.items() if value is not None}
    defaults = FailureRates()
    remarks = tuple(
        f"{text.format(getattr(defaults, key))}: a default, not measured"
        for key, text in _DEFAULT_RATES.items()
        if key not in figures and not (key == "repair_s" and service.scheme == Scheme.cloud)
    )
    return rates_from(figures, place), (*remarks, *_failover_remarks(figures))


def _idle_remarks(stated: Mapping[str, Any], scheme: str) -> tuple[str, ...]:
    """Return remarks on figures of a run or a file that have no effect here."""
    non_empty = {key: value for key, value in stated.items() if value is not None}
    return tuple(
        f"{key}: without effect; expected {expected}"
        for key, expected in unused_rates(non_empty, scheme=scheme)
    )


def _failover_remarks(stated: Mapping[str, Any]) -> list[str]:
    """Return remarks on times that are samples, and on the use of a run's own repairs."""
    remarks = []
    for key in ("failover_s", "repair_s"):
        value = stated.get(key)
        if isinstance(value, Mapping) and (samples := value.get("samples")):
            mean_s = math.fsum(samples) / len(samples)
            remarks.append(f"{key}: {len(samples):,} samples, mean {duration(mean_s)}")
            if key == "repair_s":
                remarks[-1] += "; a run's repairs take what its design says, so state your own"
    return remarks


def _missing_latency(measured: ServiceFit | None, slo: Slo) -> list[str]:
    """Report it if no arm has enough requests to calibrate the latency."""
    if measured is None or not slo.latency_ms:
        return []
    most = max((arm.requests for arm in measured.arms), default=0)
    if most >= LEAST_REQUESTS:
        return []
    return [f"latency: {most} requests in the best measured arm, {LEAST_REQUESTS} needed"]
