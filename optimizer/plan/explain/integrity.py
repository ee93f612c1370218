"""The variants of a plan, their wrong answers, and the cost of the integrity SLO."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

from core.errors import PlannerError
from core.tolerances import CENT
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.inputs.variants import LIMITS, Bounds, Hardening, Mix, visits_of
from optimizer.plan.solve.choices import Chosen, cheapest_of
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import LIMIT_S, NONE, NOT_FOUND, Solution, check_proof, solve
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Problem

_FREE_S = 30.0  # for the plan without the limits of integrity


class Free(TypedDict):
    """The plan without the limits; it is the same plan if they cost nothing."""

    usd_per_month: float | None
    usd_less: float | None
    variants: dict[str, str] | None
    found: bool
    wrong_per_million: NotRequired[dict[str, float]]
    corrupt_s_per_month: NotRequired[dict[str, float]]


@dataclass(frozen=True)
class _Choices:
    """Number of choices of variants.

    `passing` keep the limits; `decided` of these were searched to the end.
    """

    all: int
    passing: int
    decided: int


@dataclass(frozen=True)
class Hardened:
    """The request with the chosen variants, its plan, and the texts about the variants."""

    request: PlanRequest
    problem: Problem | None  # None: no choice of variants keeps the limits of integrity
    solution: Solution
    body: Mapping[str, Any] | None = None
    binding: tuple[str, ...] = ()  # or the reasons why there is no plan


def solve_hardened(request: PlanRequest, deadline: Deadline) -> Hardened:
    """Return the cheapest plan over all choices of variants that meet the limits of integrity.

    Raises: OutOfTimeError if the deadline passes without a plan and without a proof of none.
    """
    offers, case = request.hardening, request.case
    search_deadline = deadline.within(LIMIT_S)
    if offers is None:
        problem = case.problem(check=search_deadline.check)
        solution = solve(problem, None, search_deadline)
        return Hardened(request, problem, check_proof(problem, solution))
    mixes = sorted(itertools.product(*offers.offered), key=_slowness)
    passing_mixes = [mix for mix in mixes if not offers.weigh(mix, case.tiers).broken(offers.slo)]
    if not passing_mixes:
        return _explain_infeasible(request, offers, mixes, deadline.within(_FREE_S))
    problems = [_with_variants(case, offers, mix).problem for mix in passing_mixes]
    chosen = cheapest_of(problems, search_deadline)
    mix = passing_mixes[chosen.number or 0]
    free_mix, free = _cheapest_without(
        case, offers, mixes, passing_mixes, chosen.found, deadline.within(_FREE_S)
    )
    without = _describe_free(offers, case, free_mix, free, chosen.found)
    return Hardened(
        replace(request, case=_with_variants(case, offers, mix)),
        chosen.problem or _with_variants(case, offers, mix).problem(check=deadline.check),
        chosen.found,
        _body(offers, case, mix, _Choices(len(mixes), len(passing_mixes), chosen.decided), without),
        _cost_texts(without, chosen.found),
    )


def _slowness(mix: Mix) -> float:
    """Return the cores of the mix relative to native: the smallest is likely the cheapest."""
    return math.fsum(1.0 / variant.nodt for variant in mix)


def _with_variants(case: Case, offers: Hardening, mix: Mix) -> Case:
    return replace(case, tiers=offers.build(mix, case.tiers))


def _cheapest_without(
    case: Case,
    offers: Hardening,
    mixes: Sequence[Mix],
    passing_mixes: Sequence[Mix],
    solution: Solution,
    deadline: Deadline,
) -> tuple[Mix | None, Solution]:
    """Return the cheapest plan without limits of integrity."""
    failing_mixes = [mix for mix in mixes if mix not in passing_mixes]
    if not failing_mixes:
        return None, solution
    chosen = _solve_free(case, offers, failing_mixes, deadline)
    if chosen.number is None:
        return None, solution if chosen.found.proved else NOT_FOUND
    if cost(solution.path) <= cost(chosen.found.path) + CENT:
        return None, solution
    return failing_mixes[chosen.number], chosen.found


def _solve_free(case: Case, offers: Hardening, mixes: Sequence[Mix], deadline: Deadline) -> Chosen:
    """Return the cheapest plan without the limits; `NOT_FOUND` if the time ended before."""
    problems = [_with_variants(case, offers, mix).problem for mix in mixes]
    try:
        return cheapest_of(problems, deadline)
    except PlannerError:
        return Chosen(None, None, NOT_FOUND)


def _explain_infeasible(
    request: PlanRequest, offers: Hardening, mixes: Sequence[Mix], deadline: Deadline
) -> Hardened:
    """Return the result if no choice of variants keeps the limits of integrity."""
    case = request.case
    best = min(mixes, key=lambda mix: offers.weigh(mix, case.tiers).worst(offers.slo))
    weighed = offers.weigh(best, case.tiers)
    chosen = _solve_free(case, offers, mixes, deadline)
    free_mix = None if chosen.number is None else mixes[chosen.number]
    without = _describe_free(offers, case, free_mix, chosen.found, NONE)
    body = _body(offers, case, best, _Choices(len(mixes), 0, 0), without)
    built = "native" if all(len(o) == 1 for o in offers.offered) else "the best choice of variants"
    texts = [
        f"integrity: {key} of {getattr(offers.slo, key):g} is not kept by {built} "
        f"({_mix_text(case, best)}): at most {_format(getattr(weighed, key).high)} at confidence "
        f"{offers.slo.confidence:g}, {_format(getattr(weighed, key).middle)} expected"
        for key in weighed.broken(offers.slo)
    ]
    texts += _blame(offers, case, best, weighed.worst(offers.slo))
    if chosen.found.usd_per_month is not None:
        texts.append(
            f"integrity: without it a plan is {chosen.found.usd_per_month:.2f} USD a month"
        )
    return Hardened(request, None, NONE, body, tuple(texts))


def _blame(offers: Hardening, case: Case, mix: Mix, over: float) -> Iterable[str]:
    """Yield the tier with the most wrong answers, and a hint if more injections could help."""
    shares = [offers.corrupt_share(variant).high for variant in mix]
    by_page = offers.slo.wrong_per_million is not None
    visits = visits_of(case.tiers) if by_page else [1.0] * len(mix)
    at = max(range(len(mix)), key=lambda i: shares[i] * visits[i])
    variant, tier = mix[at], case.tiers[at].name
    asks = f", {visits[at]:g} to a page" if by_page else ""
    yield (
        f"integrity: tier {tier} binds: at most {shares[at]:.3g} of {variant.name}'s answers are "
        f"wrong{asks}"
    )
    high = variant.corrupt.bounds(offers.level).high
    needed = offers.injections_needed(variant, high / over)
    if needed is not None and variant.corrupt.of is not None:
        yield (
            f"integrity: {variant.corrupt.hits:,} silent of {variant.corrupt.of:,.0f} injections "
            f"into {variant.name} are too little evidence: about {needed:,} without one would do, "
            "in every tier that is counted like it"
        )


def _body(
    offers: Hardening, case: Case, mix: Mix, choices: _Choices, without: Free
) -> dict[str, object]:
    """Return `integrity` of plan.json."""
    weighed = offers.weigh(mix, case.tiers)
    return {
        "asked": {key: getattr(offers.slo, key) for key in LIMITS},
        "confidence": offers.slo.confidence,
        "level": offers.level,
        **{key: _describe_bounds(getattr(weighed, key)) for key in LIMITS},
        "faults_per_node_month": _describe_bounds(offers.faults.bounds(offers.level)),
        "tiers": {
            tier.name: {
                "variant": variant.name,
                "nodt": variant.nodt,
                "corrupt_p": _describe_bounds(variant.corrupt.bounds(offers.level)),
                "injections": variant.corrupt.of,
                "wrong_share": _describe_bounds(offers.corrupt_share(variant)),
                "crashes_by_faults_per_year": offers.crashes_per_year(variant),
            }
            for tier, variant in zip(case.tiers, mix, strict=True)
        },
        "choices": choices.all,
        "choices_that_keep": choices.passing,
        "choices_decided": choices.decided,
        "without": without,
    }


def _describe_free(
    offers: Hardening, case: Case, mix: Mix | None, solution_without: Solution, solution: Solution
) -> Free:
    usd_without, usd_plan = solution_without.usd_per_month, solution.usd_per_month
    body: Free = {
        "usd_per_month": None if usd_without is None else round(usd_without, 2),
        "usd_less": None
        if usd_without is None or usd_plan is None
        else round(usd_plan - usd_without, 2),
        "variants": None,
        "found": usd_without is not None or solution_without.proved,
    }
    if mix is None:
        return body
    names = {tier.name: v.name for tier, v in zip(case.tiers, mix, strict=True)}
    weighed = offers.weigh(mix, case.tiers)
    return {
        **body,
        "variants": names,
        "wrong_per_million": _describe_bounds(weighed.wrong_per_million),
        "corrupt_s_per_month": _describe_bounds(weighed.corrupt_s_per_month),
    }


def _cost_texts(without: Free, solution: Solution) -> tuple[str, ...]:
    usd_less, usd = without["usd_less"], without["usd_per_month"]
    if not without["found"]:
        return ("integrity: what it costs was not found in time",)
    if solution.usd_per_month is None:
        if usd is None:
            return ("integrity: without it there is no plan either",)
        return (f"integrity: without it a plan is {usd:.2f} USD a month",)
    if usd_less is None or usd_less <= CENT:
        return ()
    least = "" if solution.proved else "about "
    return (f"integrity: without it {least}{usd_less:.2f} USD a month less",)


def _mix_text(case: Case, mix: Mix) -> str:
    return ", ".join(f"{t.name} {v.name}" for t, v in zip(case.tiers, mix, strict=True))


def _describe_bounds(bounds: Bounds) -> dict[str, float]:
    return {"expected": bounds.middle, "low": bounds.low, "high": bounds.high}


def _format(value: float) -> str:
    return f"{value:.4g}"
