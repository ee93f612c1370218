"""A plan from a results folder, a plan.toml, or both: the interface for experiments and the CLI.

A checked request (`ask`) becomes a problem, the problem a solution (`solve`), and the solution a
plan with its explanations (`explain`).
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Unpack

from core.json_object import JsonObject
from optimizer.fit import fit, read_results
from optimizer.plan.explain.assumptions import assumptions
from optimizer.plan.explain.current_fleet import against_present
from optimizer.plan.explain.domains import domains_of
from optimizer.plan.explain.hosts import hosts_of
from optimizer.plan.explain.integrity import solved
from optimizer.plan.explain.load import load_of
from optimizer.plan.explain.reasons import (
    ExplainOptions,
    Relaxed,
    binding_of,
    explained,
    infeasible,
)
from optimizer.plan.explain.remedies import against_limping, solves_of
from optimizer.plan.explain.report import (
    confidence_of,
    fleet_of,
    inputs_of,
    margin_of,
    outlook,
    tier_plans,
)
from optimizer.plan.explain.schedule import schedule_of
from optimizer.plan.explain.state import state_of
from optimizer.plan.explain.undecided import of_breach, of_evidence, of_percentiles, of_run, of_time
from optimizer.plan.explain.warnings import (
    of_calibration,
    of_confidence,
    of_decision,
    of_integrity,
    of_load,
    of_margin,
    of_prices,
    of_quotas,
    of_state,
    of_unknown,
)
from optimizer.plan.explain.without import of_rules, without_promise, without_rules
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.inputs.request import (
    Choices,
    PlanRequest,
    request_for_service,
    request_from_plan_file,
)
from optimizer.plan.outcome import Plan
from optimizer.plan.simulate import Decided, decide, not_simulated
from optimizer.plan.solve.deadline import Clock, Deadline, OutOfTimeError
from optimizer.plan.solve.model import LIMIT_S, Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem

_AFTER_S = 8.0  # for what is said beside a plan that took all the time of its search


@dataclass(frozen=True)
class PlanResult:
    """The plan, and what it was found from: for fronts, prices of limits and sensitivities.

    `problem` and `found` are None where there was not enough evidence to ask.
    """

    plan: Plan
    case: Case
    problem: Problem | None = None
    found: Solution | None = None
    deadline: Deadline | None = None  # of what is said beside the plan


def plan_from_results(
    run_dir: FilePath, slo: Mapping[str, Any], **choices: Unpack[Choices]
) -> Plan:
    """Return the cheapest fleet for the service measured in `run_dir` that meets `slo`.

    Parameters: run_dir a results folder; slo with any of availability (0..1), p95_ms, p99_ms [ms],
    confidence (0..1), degraded.
    Returns: Plan; thin evidence, or a run that is not valid, makes it undecided, no exception.
    Raises: SparecraftError for a folder, SLO or value that cannot be used.
    """
    service = fit(read_results(FilePath(run_dir)))
    return make_plan(request_for_service(service, slo, **choices)).plan


def plan_from_file(path: FilePath, results: FilePath | None = None) -> Plan:
    """Return the plan of a plan.toml; with a results folder, for the service measured there.

    Raises: SparecraftError for a file, folder or value that cannot be used.
    """
    return make_plan(request_from_plan_file(read_plan(FilePath(path)), results)).plan


def make_plan(
    asked: PlanRequest,
    today: datetime.date | None = None,
    clock: Clock = time.monotonic,
    simulated: Simulated | None = None,
) -> PlanResult:
    """Return the cheapest plan for the case, explained; `today` tells how old the prices are.

    The search ends after LIMIT_S by `clock`, and what is said beside the plan soon after that.
    `simulated` decides between the fleets, in a time of its own; without it the law's fleet stands.
    """
    case, deadline = asked.case, Deadline(LIMIT_S + _AFTER_S, clock)
    spoilt = of_run(asked.service)
    frame = Plan(
        None if spoilt else False, case.scheme, case.region, case.book.as_of,
        reasons=spoilt, inputs=inputs_of(asked, asked.service),
    )  # fmt: skip
    if asked.missing:
        why = (*spoilt, *of_evidence(asked.missing))
        missing = (*asked.missing, *asked.thin)
        return PlanResult(replace(frame, feasible=None, insufficient=missing, reasons=why), case)
    try:
        hardened = solved(asked, deadline)
    except OutOfTimeError as error:
        why = (*spoilt, *of_time(error))
        return PlanResult(replace(frame, feasible=None, insufficient=asked.thin, reasons=why), case)
    asked, problem, found = hardened.asked, hardened.problem, hardened.found
    case = asked.case
    beside = (*of_integrity(hardened.body), *of_prices(case.book, today))
    frame = replace(
        frame,
        integrity=hardened.body,
        assumptions=assumptions(asked),
        warnings=beside,
        insufficient=asked.thin,
        solver=_solver(found, LIMIT_S + _AFTER_S - deadline.left_s(), problem),
    )
    if problem is None:
        return PlanResult(replace(frame, reasons=(*spoilt, *hardened.binds)), case)
    tried = without_rules(case, found, deadline)
    frame = replace(frame, domains=domains_of(case, found.path, tried))
    lifted = (*without_promise(case, found, deadline), *tried)
    others = (*of_rules(found, lifted), *hardened.binds)
    if found.path is None and (lacking := case.lacking()):
        none: Relaxed = {"alone": [], "together": [], "cut": None}
        plan = replace(frame, reasons=(*spoilt, *lacking, *others), relaxation=none)
        return PlanResult(plan, case, problem, found, deadline)
    if found.path is None:
        texts, relaxation = infeasible(problem, case, deadline)
        unsure = (*spoilt, *of_breach(found.breach), *of_percentiles(case, relaxation))
        plan = replace(
            frame,
            feasible=None if unsure else False,
            reasons=(*unsure, *texts, *others),
            relaxation=relaxation,
        )
        return PlanResult(plan, case, problem, found, deadline)
    decided = (simulated or _law_only)(case, problem, found.path)
    law_path, deadline = found.path, Deadline(max(_AFTER_S, deadline.left_s()), clock)
    if decided.path is not None and decided.path != law_path:
        found = replace(found, path=decided.path, usd_per_month=cost(decided.path))
    assert found.path is not None
    binds = (
        binding_of(problem, found, case, others, deadline)
        if found.path == law_path
        else (*_of_simulation(law_path, found.path), *others)
    )
    margin = margin_of(case, asked.figures, found.path)
    sure = confidence_of(case, asked.rates, found.path, deadline)
    plan = replace(
        frame,
        assumptions=assumptions(asked, binds),
        warnings=(
            *of_breach(found.breach),
            *(() if asked.rates is None or asked.rates.monotone else of_confidence(sure)),
            *of_state(asked.service, case.tiers, found.path),
            *of_quotas(asked.schedule, found.path),
            *of_decision(decided.body),
            *(
                (*of_margin(margin, case.slo), *of_load(case.tiers, found.path))
                if decided.path is None
                else ()
            ),
            *of_unknown(case.latency.unknown),
            *of_calibration(case.latency.factor_of(tuple(o.replicas for o in found.path))),
            *beside,
        ),
        feasible=None if spoilt else True,
        usd_per_month=found.usd_per_month,
        tiers=tier_plans(case, found.path),
        predicted=decided.outlook(outlook(case, found.path)),
        simulation=decided.body,
        confidence=sure,
        margin=margin,
        load=_load(asked, found.path),
        schedule=schedule_of(case, asked.load, asked.schedule, found.path, deadline),
        present=against_present(asked, found.path, deadline),
        binding=binds,
        fleet=fleet_of(asked.service, case, found.path),
        state=state_of(case, found.path),
        hosts=hosts_of(case, problem, asked.hosts, deadline),
    )
    return PlanResult(plan, case, problem, found, deadline)


def _load(asked: PlanRequest, path: Path) -> dict[str, object]:
    now_per_s = asked.service.pages_per_s.value
    assert now_per_s is not None  # without it nothing is missing
    return load_of(asked.case, asked.load, now_per_s, path)


def explained_plan(asked: PlanRequest, wanted: ExplainOptions) -> tuple[Plan, JsonObject]:
    """Return the plan, and plan.json with the requested explanations."""
    found = make_plan(asked, wanted.today, wanted.clock, _simulated(asked, wanted))
    body = found.plan.to_json_dict()
    if found.problem is None or found.found is None or found.deadline is None:
        return found.plan, body
    if found.plan.tiers and not body["simulation"].get("moved"):
        body |= explained(found.problem, found.found, found.case, wanted, found.deadline)
    if found.case.limps or found.case.remedies:
        budget = wanted.budget(solves_of(found.case), found.deadline.left_s())
        body["limping"] = against_limping(found.case, found.problem, found.found, budget)
    return found.plan, body


Simulated = Callable[[Case, Problem, Path], Decided]


def _law_only(_case: Case, _problem: Problem, _path: Path) -> Decided:
    return not_simulated("")


def _simulated(asked: PlanRequest, wanted: ExplainOptions) -> Simulated:
    """Return the simulator for the run's records, or the reason that there is none."""
    records, service = wanted.records, asked.service
    why = wanted.not_simulated
    if records is not None and service.against:
        why = "nothing may be concluded from the run"
    elif records is not None and asked.mode != "results":
        why = "the service is not as the run measured it: a plan.toml states figures"
    elif records is not None and not asked.case.slo.latency_ms:
        why = "no latency is asked for"
    elif records is not None:
        return lambda case, problem, path: decide(
            case, problem, path, records, service, clock=wanted.clock, say=wanted.say
        )
    return lambda _case, _problem, _path: not_simulated(why)


def _of_simulation(law: Path, kept: Path) -> tuple[str, ...]:
    """Return the reason for another plan than the law's."""
    more = cost(kept) - cost(law)
    if more < 0.0:
        return (f"the law: it had proposed a fleet that costs {-more:.2f} USD a month more",)
    return (
        f"simulation: the law's fleet, {more:.2f} USD a month less, is not shown to keep the SLO",
    )


def _solver(found: Solution, seconds: float, problem: Problem | None) -> dict[str, object]:
    return {
        "name": "HiGHS through Pyomo",
        "options": sum(len(tier) for tier in problem.options) if problem else 0,
        "latency_cuts": found.cuts,
        "solves": found.solves,
        "seconds": round(seconds, 2),
        "proved": found.proved,
        "proof": found.proof,
        "gap": found.gap,
        "breach": found.breach,
        "verified": "all limits evaluated again outside the solver",
    }
