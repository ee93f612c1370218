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
from optimizer.availability import TooManyPlacementsError
from optimizer.fit import fit, read_results
from optimizer.plan.explain.assumptions import assumptions
from optimizer.plan.explain.current_fleet import compare_with_present
from optimizer.plan.explain.curve import fleet_text
from optimizer.plan.explain.domains import domains_of
from optimizer.plan.explain.hosts import hosts_of
from optimizer.plan.explain.integrity import solve_hardened
from optimizer.plan.explain.load import load_of
from optimizer.plan.explain.reasons import (
    ExplainOptions,
    RelaxationBody,
    binding_of,
    explain,
    explain_infeasible,
)
from optimizer.plan.explain.remedies import plan_against_limping, solves_of
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
from optimizer.plan.explain.undecided import (
    report_breach,
    report_invalid_run,
    report_thin_evidence,
    report_thin_percentiles,
    report_timeout,
)
from optimizer.plan.explain.warnings import (
    warn_of_calibration,
    warn_of_confidence,
    warn_of_decision,
    warn_of_integrity,
    warn_of_load,
    warn_of_margin,
    warn_of_prices,
    warn_of_quotas,
    warn_of_state,
    warn_of_unknown,
)
from optimizer.plan.explain.without import describe_rules, without_promise, without_rules
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.plan_file import read_plan
from optimizer.plan.inputs.request import (
    Choices,
    PlanRequest,
    request_for_service,
    request_from_plan_file,
)
from optimizer.plan.outcome import Plan
from optimizer.plan.simulate import Decided, Refused, decide, not_simulated, simulated_outlook
from optimizer.plan.solve.deadline import Clock, Deadline, OutOfTimeError
from optimizer.plan.solve.model import LIMIT_S, Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem

_AFTER_S = 8.0  # for the explanations of a plan whose search took all of its time


@dataclass(frozen=True)
class PlanResult:
    """The plan and its problem, which fronts, prices of limits and sensitivities need.

    `problem` and `solution` are None if there was too little evidence for a problem.
    """

    plan: Plan
    case: Case
    problem: Problem | None = None
    solution: Solution | None = None
    deadline: Deadline | None = None  # of the explanations


def plan_from_results(
    run_dir: FilePath, slo: Mapping[str, Any], **choices: Unpack[Choices]
) -> Plan:
    """Return the cheapest fleet for the service measured in `run_dir` that meets `slo`.

    Parameters: run_dir a results folder; slo with any of availability (0..1), p95_ms, p99_ms [ms],
    confidence (0..1), degraded.
    Returns: Plan; it is undecided if evidence is thin or the run is not valid (no exception).
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
    request: PlanRequest,
    today: datetime.date | None = None,
    clock: Clock = time.monotonic,
    simulator: Simulator = lambda *_: not_simulated(""),
) -> PlanResult:
    """Return the cheapest plan for the case, explained; `today` tells how old the prices are.

    The search ends after LIMIT_S by `clock`, and the explanations end soon after that.
    `simulator` decides between the fleets, within its own time; without it the law's fleet stands.
    """
    case, deadline = request.case, Deadline(LIMIT_S + _AFTER_S, clock)
    invalid_run = report_invalid_run(request.service)
    frame = Plan(
        None if invalid_run else False, case.scheme, case.region, case.book.as_of,
        reasons=invalid_run, inputs=inputs_of(request),
    )  # fmt: skip
    if request.missing:
        reasons = (*invalid_run, *report_thin_evidence(request.missing))
        missing = (*request.missing, *request.thin)
        plan = replace(frame, feasible=None, insufficient=missing, reasons=reasons)
        return PlanResult(plan, case)
    try:
        hardened = solve_hardened(request, deadline)
    except OutOfTimeError as error:
        reasons = (*invalid_run, *report_timeout(error))
        plan = replace(frame, feasible=None, insufficient=request.thin, reasons=reasons)
        return PlanResult(plan, case)
    except TooManyPlacementsError as error:
        raise request.placement_error(error) from error
    request, problem, solution = hardened.request, hardened.problem, hardened.solution
    case = request.case
    common_warnings = (*warn_of_integrity(hardened.body), *warn_of_prices(case.book, today))
    frame = replace(
        frame,
        integrity=hardened.body,
        assumptions=assumptions(request),
        warnings=common_warnings,
        insufficient=request.thin,
        solver=_describe_solver(solution, LIMIT_S + _AFTER_S - deadline.left_s(), problem),
    )
    if problem is None:
        return PlanResult(replace(frame, reasons=(*invalid_run, *hardened.binding)), case)
    rule_costs = without_rules(case, solution, deadline)
    frame = replace(frame, domains=domains_of(case, solution.path, rule_costs))
    limit_costs = (*without_promise(case, solution, deadline), *rule_costs)
    other_limits = (*describe_rules(solution, limit_costs), *hardened.binding)
    if solution.path is None and (unservable := case.unservable_tiers()):
        no_relaxation: RelaxationBody = {"alone": [], "together": [], "cut": None}
        plan = replace(
            frame, reasons=(*invalid_run, *unservable, *other_limits), relaxation=no_relaxation
        )
        return PlanResult(plan, case, problem, solution, deadline)
    if solution.path is None:
        texts, relaxation = explain_infeasible(problem, case, deadline)
        doubts = (
            *invalid_run,
            *report_breach(solution.breach),
            *report_thin_percentiles(case, relaxation),
        )
        plan = replace(
            frame,
            feasible=None if doubts else False,
            reasons=(*doubts, *texts, *other_limits),
            relaxation=relaxation,
        )
        return PlanResult(plan, case, problem, solution, deadline)
    decision = simulator(case, problem, solution.path)
    law_path, deadline = solution.path, Deadline(max(_AFTER_S, deadline.left_s()), clock)
    if decision.path is not None and decision.path != law_path:
        solution = replace(solution, path=decision.path)
    assert solution.path is not None
    binding = (
        binding_of(problem, solution, case, other_limits, deadline)
        if solution.path == law_path
        else (*_explain_simulation(law_path, solution.path), *other_limits)
    )
    binding = (*binding, *_explain_refused(decision.refused))
    margin = margin_of(case, request.figures, solution.path)
    confidence = confidence_of(case, request.rates, solution.path, deadline)
    plan = replace(
        frame,
        assumptions=assumptions(request, binding),
        warnings=(
            *report_breach(solution.breach),
            *(
                ()
                if request.rates is None or request.rates.monotone
                else warn_of_confidence(confidence)
            ),
            *warn_of_state(request.service, case.tiers, solution.path),
            *warn_of_quotas(request.schedule, solution.path),
            *warn_of_decision(decision.body),
            *(
                (*warn_of_margin(margin, case.slo), *warn_of_load(case.tiers, solution.path))
                if decision.path is None
                else ()
            ),
            *warn_of_unknown(case.latency.unknown),
            *warn_of_calibration(case.latency.factor_of(tuple(o.replicas for o in solution.path))),
            *common_warnings,
        ),
        feasible=None if invalid_run else True,
        usd_per_month=solution.usd_per_month,
        tiers=tier_plans(case, solution.path),
        predicted=decision.outlook(outlook(case, solution.path)),
        simulation=decision.body,
        confidence=confidence,
        margin=margin,
        load=_describe_load(request, solution.path),
        schedule=schedule_of(case, request.load, request.schedule, solution.path, deadline),
        present=compare_with_present(request, solution.path, deadline),
        binding=binding,
        fleet=fleet_of(request.service, case, solution.path),
        state=state_of(case, solution.path),
        hosts=hosts_of(case, problem, request.hosts, deadline),
    )
    plan = replace(plan, refused=_refused_plan(plan, request, decision.refused))
    return PlanResult(plan, case, problem, solution, deadline)


def _refused_plan(plan: Plan, request: PlanRequest, refused: Refused | None) -> JsonObject | None:
    """Return the keys in which a plan.json of the refused fleet differs from the plan's."""
    if refused is None:
        return None
    case, path = request.case, refused.path
    body = replace(
        plan,
        usd_per_month=cost(path),
        tiers=tier_plans(case, path),
        predicted=simulated_outlook(outlook(case, path), refused.predicted),
        simulation={"verdict": "refused", "kept": refused.kept, "runs": refused.runs},
        schedule=None,
        hosts=None,
        domains=None,
        fleet=fleet_of(request.service, case, path),
    ).to_json_dict()
    keys = ("usd_per_month", "tiers", "predicted", "simulation", "tfvars")
    return {key: body[key] for key in keys}


def _describe_load(request: PlanRequest, path: Path) -> dict[str, object]:
    now_per_s = request.service.pages_per_s.value
    assert now_per_s is not None  # None would be in `missing`
    return load_of(request.case, request.load, now_per_s, path)


def explain_plan(request: PlanRequest, options: ExplainOptions) -> tuple[Plan, JsonObject]:
    """Return the plan, and plan.json with the requested explanations."""
    result = make_plan(request, options.today, options.clock, _choose_simulator(request, options))
    body = result.plan.to_json_dict()
    if result.problem is None or result.solution is None or result.deadline is None:
        return result.plan, body
    if result.plan.tiers and not body["simulation"].get("moved"):
        body |= explain(result.problem, result.solution, result.case, options, result.deadline)
    if result.case.limps or result.case.remedies:
        budget = options.budget(solves_of(result.case), result.deadline.left_s())
        body["limping"] = plan_against_limping(result.case, result.problem, result.solution, budget)
    return result.plan, body


Simulator = Callable[[Case, Problem, Path], Decided]


def _choose_simulator(request: PlanRequest, options: ExplainOptions) -> Simulator:
    """Return the simulator for the run's records, or the reason that there is none."""
    records, service = options.records, request.service
    reason = options.not_simulated
    if records is not None and service.against:
        reason = "nothing may be concluded from the run"
    elif records is not None and request.mode != "results":
        reason = "the service is not as the run measured it: a plan.toml states figures"
    elif records is not None and not request.case.slo.latency_ms:
        reason = "no latency is asked for"
    elif records is not None:
        return lambda case, problem, path: decide(
            case, problem, path, records, service, clock=options.clock, say=options.say
        )
    return lambda *_: not_simulated(reason)


def _explain_simulation(law: Path, chosen: Path) -> tuple[str, ...]:
    """Return the reason for a plan other than the law's."""
    usd_more = cost(chosen) - cost(law)
    if usd_more < 0.0:
        return (f"the law: it had proposed a fleet that costs {-usd_more:.2f} USD a month more",)
    return (
        f"simulation: the law's fleet, {usd_more:.2f} USD a month less, is not shown to keep "
        "the SLO",
    )


def _explain_refused(refused: Refused | None) -> tuple[str, ...]:
    if refused is None:
        return ()
    return (
        f"simulation: the next cheaper fleet, {fleet_text(refused.path)}, {cost(refused.path):.2f} "
        f"USD, keeps the SLO in {refused.kept} of {refused.runs} runs",
    )


def _describe_solver(
    solution: Solution, seconds: float, problem: Problem | None
) -> dict[str, object]:
    return {
        "name": "HiGHS through Pyomo",
        "options": sum(len(tier) for tier in problem.options) if problem else 0,
        "latency_cuts": solution.cuts,
        "solves": solution.solves,
        "seconds": round(seconds, 2),
        "proved": solution.proved,
        "proof": solution.proof,
        "gap": solution.gap,
        "breach": solution.breach,
        "verified": "all limits evaluated again outside the solver",
    }
