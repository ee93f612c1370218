"""From a results folder, a plan.toml, or both, to a plan: what the runner and the CLI call.

All ways end in `answer`: a checked case becomes a problem, the problem a solution, and the solution
a plan with everything that has to be said about it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path as FilePath
from typing import Any

from optimizer.availability import FailureRates
from optimizer.fit import ServiceFit, fit, read_results
from optimizer.plan.capacity import with_capacities
from optimizer.plan.case import Case, Slo, slo_from
from optimizer.plan.evidence import LEAST_REQUESTS, demands, percentile_of
from optimizer.plan.explain import binding, infeasible
from optimizer.plan.model import LIMIT_S, Solution, solve
from optimizer.plan.options import Limits, TierDemand
from optimizer.plan.outcome import Plan
from optimizer.plan.problem import Problem
from optimizer.plan.report import (
    assumptions,
    confidence_of,
    fleet_of,
    inputs_of,
    outlook,
    tier_plans,
)
from optimizer.plan.source import Stated, read_plan
from optimizer.plan.stated import book_of, merged, region_of, stated_service
from optimizer.prices import PriceBook
from optimizer.uncertainty import UncertainRates, rates_from

_DEFAULT_RATES = {
    "crash_per_year": "crash rate {:g} per node and year (PCRAFT)",
    "failover_s": "fail-over takes {:g} s on average (PCRAFT)",
    "repair_s": "no repair of broken nodes within the year (PCRAFT's case without repair)",
}


@dataclass(frozen=True)
class Asked:
    """A checked question: the case, the service behind it, and where its figures are from."""

    case: Case
    service: ServiceFit
    mode: str  # results | plan.toml | results and plan.toml
    stated: tuple[str, ...] = ()  # figures of plan.toml that stand in for measured ones
    said: tuple[str, ...] = ()  # assumptions made on the way here
    rates: UncertainRates | None = None
    missing: tuple[str, ...] = ()  # without these there is no plan
    thin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The plan, and what it was found from: for fronts, prices of limits and sensitivities.

    `problem` and `found` are None where there was not enough evidence to ask.
    """

    plan: Plan
    case: Case
    problem: Problem | None = None
    found: Solution | None = None


def plan_from_results(
    run_dir: FilePath,
    slo: Mapping[str, Any],
    *,
    scheme: str | None = None,
    region: str | None = None,
    limits: Limits | None = None,
    rates: Mapping[str, Any] | FailureRates | None = None,
    book: PriceBook | None = None,
) -> Plan:
    """The cheapest fleet for the service measured in `run_dir` that meets `slo`.

    Parameters: run_dir a results folder; slo with any of availability (0..1), p95_ms, p99_ms [ms],
    confidence (0..1), degraded; scheme cloud | on-prem (default: the run's); region of the price
    book (default us-east-1, or the only one that the book has); rates as in a plan.toml
    (default: the run's, else PCRAFT's); book (default: on-prem or ec2, by the scheme).
    Returns: Plan; thin evidence makes it infeasible with `insufficient` filled, not an exception.
    Raises: PlannerError for a folder, SLO or value that cannot be used.
    """
    service = fit(read_results(FilePath(run_dir)))
    return plan_service(
        service, slo, scheme=scheme, region=region, limits=limits, rates=rates, book=book
    )


def plan_from_file(path: FilePath, results: FilePath | None = None) -> Plan:
    """The plan that a plan.toml asks for; with a results folder, of the service measured there.

    Raises: PlannerError for a file, folder or value that cannot be used.
    """
    return answer(asked_by_file(path, results)).plan


def plan_service(
    service: ServiceFit,
    slo: Mapping[str, Any],
    *,
    scheme: str | None = None,
    region: str | None = None,
    limits: Limits | None = None,
    rates: Mapping[str, Any] | FailureRates | None = None,
    book: PriceBook | None = None,
) -> Plan:
    """`plan_from_results` for a service that is already fitted."""
    asked = asked_of_service(
        service, slo, scheme=scheme, region=region, limits=limits, rates=rates, book=book
    )
    return answer(asked).plan


def asked_of_service(
    service: ServiceFit,
    slo: Mapping[str, Any],
    *,
    scheme: str | None = None,
    region: str | None = None,
    limits: Limits | None = None,
    rates: Mapping[str, Any] | FailureRates | None = None,
    book: PriceBook | None = None,
) -> Asked:
    """The checked question of `plan_service`."""
    if scheme is not None:
        service = replace(service, scheme=scheme)
    if book is None:
        book = book_of(None, service.scheme, FilePath())
    if isinstance(rates, FailureRates):
        known: UncertainRates = _certain(rates)
        said: tuple[str, ...] = ()
    else:
        known, said = _stated_rates({**service.stated_rates, **(rates or {})})
    return _asked(
        service, service, slo_from(slo), book, region, limits or Limits(), known,
        mode="results", said=said,
    )  # fmt: skip


def asked_by_file(path: FilePath, results: FilePath | None = None) -> Asked:
    """The checked question of `plan_from_file`. Refusals name the file."""
    return asked_as_stated(read_plan(FilePath(path)), results)


def asked_as_stated(plan: Stated, results: FilePath | None = None) -> Asked:
    """The checked question of a plan.toml that has been read."""
    plan, carried = with_capacities(plan)
    measured = None if results is None else fit(read_results(FilePath(results)))
    service, said_instead = (
        (stated_service(plan), ()) if measured is None else merged(measured, plan)
    )
    known, said = _stated_rates({**service.stated_rates, **plan.rates}, f"{plan.place}.rates")
    book = book_of(plan.book, service.scheme, plan.path.parent)
    asked = _asked(
        service, measured, plan.slo, book, plan.region, plan.limits, known,
        mode="plan.toml" if measured is None else "results and plan.toml",
        said=(*carried, *said), plan=plan,
    )  # fmt: skip
    return replace(asked, stated=said_instead)


def _asked(
    service: ServiceFit,
    measured: ServiceFit | None,
    slo: Slo,
    book: PriceBook,
    region: str | None,
    limits: Limits,
    rates: UncertainRates,
    *,
    mode: str,
    said: tuple[str, ...],
    plan: Stated | None = None,
) -> Asked:
    """One way in for all: the case, or what is missing for it."""
    missing = (*service.missing, *_missing_latency(measured, slo))
    case = Case(
        tiers=() if missing else _chosen(demands(service), plan),
        slo=slo,
        scheme=service.scheme,
        region=region_of(book, region),
        book=book,
        limits=limits,
        rates=rates.mean() if slo.confidence is None else rates.at(slo.confidence),
        policy=(plan.policy if plan else None) or "tad",
        measured=measured if measured is not None and not measured.missing else None,
    )
    book.instances(case.region)  # an unknown region is refused before anything is computed
    case.check_zero_load(f"{plan.place}.slo" if plan else "slo")
    return Asked(
        case=case,
        service=service,
        mode=mode,
        said=said,
        rates=rates,
        missing=missing,
        thin=(*service.thin, *_thin_latency(measured, slo)),
    )


def answer(
    asked: Asked,
    *,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
    seed: int = 0,
) -> Answer:
    """The cheapest plan for the case, explained.

    Parameters: limit_s [s] bounds the search for the plan; seed of the draws of uncertain rates.
    """
    began_s, case = clock(), asked.case
    frame = Plan(
        False, case.scheme, case.region, case.book.as_of, inputs=inputs_of(asked, asked.service)
    )
    if asked.missing:
        why = ("the run has not enough evidence to plan from",)
        missing = (*asked.missing, *asked.thin)
        return Answer(replace(frame, insufficient=missing, reasons=why), case)
    problem = case.problem()
    found = solve(problem, limit_s=limit_s)
    frame = replace(
        frame,
        assumptions=(*asked.said, *assumptions(case, asked.service, asked.rates)),
        insufficient=asked.thin,
        solver=_solver(found, clock() - began_s, problem),
    )
    if found.path is None:
        texts, relaxation = infeasible(problem, case)
        plan = replace(frame, reasons=tuple(texts), relaxation=relaxation)
        return Answer(plan, case, problem, found)
    plan = replace(
        frame,
        feasible=True,
        usd_per_month=found.usd_per_month,
        tiers=tier_plans(case, found.path),
        predicted=outlook(case, found.path),
        confidence=confidence_of(case, asked.rates, found.path, seed),
        binding=tuple(binding(problem, found, case)),
        fleet=fleet_of(asked.service, found.path, case.policy),
    )
    return Answer(plan, case, problem, found)


def _chosen(tiers: tuple[TierDemand, ...], plan: Stated | None) -> tuple[TierDemand, ...]:
    """The demands with the mechanisms and instance types that plan.toml allows."""
    stated = {tier.name: tier.values for tier in plan.tiers} if plan else {}
    return tuple(
        replace(
            tier,
            mechanisms=stated.get(tier.name, {}).get("mechanisms", tier.mechanisms),
            instance_types=stated.get(tier.name, {}).get("instance_types"),
        )
        for tier in tiers
    )


def _stated_rates(
    stated: Mapping[str, Any], place: str = "rates"
) -> tuple[UncertainRates, tuple[str, ...]]:
    """The rates, and what PCRAFT's defaults had to stand in for."""
    given = {key: value for key, value in stated.items() if value is not None}
    defaults = FailureRates()
    said = tuple(
        f"{text.format(getattr(defaults, key))}: a default, not measured"
        for key, text in _DEFAULT_RATES.items()
        if key not in given
    )
    return rates_from(given, place), (*said, *_from_failovers(given))


def _from_failovers(given: Mapping[str, Any]) -> list[str]:
    """Which times are samples, and what a run's own repairs are worth."""
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
    """Without one arm that was asked often enough there is nothing to calibrate the latency by."""
    if measured is None or not slo.latency_ms:
        return []
    most = max((arm.requests for arm in measured.arms), default=0)
    if most >= LEAST_REQUESTS:
        return []
    return [f"latency: {most} requests in the best measured arm, {LEAST_REQUESTS} needed"]


def _thin_latency(measured: ServiceFit | None, slo: Slo) -> list[str]:
    """Percentiles with fewer than ten samples beyond them: used, but not to be relied on."""
    return [
        f"arm {arm.name}: p{q} from {found.samples} requests, {found.least} needed for 10 beyond it"
        for arm in (measured.arms if measured is not None else ())
        for q in slo.latency_ms
        if not (found := percentile_of(arm, q)).sufficient
    ]


def _solver(found: Solution, seconds: float, problem: Problem) -> dict[str, Any]:
    return {
        "name": "HiGHS through Pyomo",
        "options": sum(len(tier) for tier in problem.options),
        "latency_cuts": found.cuts,
        "solves": found.solves,
        "seconds": round(seconds, 2),
        "proved": found.proved,
        "proof": found.proof,
        "gap": found.gap,
        "verified": "all limits evaluated again outside the solver",
    }
