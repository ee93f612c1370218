"""The variants of a plan, their wrong answers, and the cost of the integrity SLO."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from core.errors import PlannerError
from core.tolerances import CENT
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.variants import LIMITS, Bounds, Hardening, Mix, Weighed, visits_of
from optimizer.plan.solve.choices import Chosen, cheapest_of
from optimizer.plan.solve.deadline import Check, Deadline
from optimizer.plan.solve.model import LIMIT_S, NONE, NOT_FOUND, Solution, check_proof, solve
from optimizer.plan.solve.problem import Problem

if TYPE_CHECKING:
    from optimizer.plan.inputs.request import PlanRequest

_FREE_S = 30.0  # for the plan without the limits of integrity


class Free(TypedDict):
    """The plan without the limits; the same where they cost nothing."""

    usd_per_month: float | None
    usd_less: float | None
    variants: dict[str, str] | None
    found: bool
    wrong_per_million: NotRequired[dict[str, float]]
    corrupt_s_per_month: NotRequired[dict[str, float]]


@dataclass(frozen=True)
class Hardened:
    """The question with the variants that were chosen, its plan, and what is said of them."""

    asked: PlanRequest
    problem: Problem | None  # None: no choice of variants keeps the limits of integrity
    found: Solution
    body: Mapping[str, Any] | None = None
    binds: tuple[str, ...] = ()  # or why there is no plan


def solved(asked: PlanRequest, deadline: Deadline) -> Hardened:
    """Return the cheapest plan over all choices of variants that meet the limits of integrity.

    Raises: OutOfTimeError if there is neither a plan, nor the proof that there is none, by then.
    """
    offers, case = asked.hardening, asked.case
    own = deadline.within(LIMIT_S)
    if offers is None:
        problem = case.problem(check=own.check)
        found = solve(problem, limit_s=own.left_s(), clock=own.clock)
        return Hardened(asked, problem, check_proof(problem, found))
    mixes = sorted(offers.mixes(), key=_slowness)
    kept = [mix for mix in mixes if not offers.weighed(mix, case.tiers).broken(offers.slo)]
    if not kept:
        return _none_keeps(asked, offers, mixes, deadline.within(_FREE_S))
    problems = _problems(case, offers, kept)
    chosen = cheapest_of(problems, limit_s=own.left_s(), clock=own.clock)
    mix = kept[chosen.number or 0]
    free_mix, free = _without(case, offers, mixes, kept, chosen.found, deadline.within(_FREE_S))
    without = _free(offers, case, free_mix, free, chosen.found)
    return Hardened(
        replace(asked, case=_case(case, offers, mix)),
        chosen.problem or _case(case, offers, mix).problem(check=deadline.check),
        chosen.found,
        _body(offers, case, mix, len(kept), len(mixes), without),
        _words(without, chosen.found),
    )


def _slowness(mix: Mix) -> float:
    """Cores that the mix takes beside native's: the likely cheapest first."""
    return math.fsum(1.0 / variant.nodt for variant in mix)


def _case(case: Case, offers: Hardening, mix: Mix) -> Case:
    return replace(case, tiers=offers.built(mix, case.tiers))


def _problems(
    case: Case, offers: Hardening, mixes: Sequence[Mix]
) -> list[Callable[[Check], Problem]]:
    def problem_of(mix: Mix) -> Callable[[Check], Problem]:
        return lambda check: _case(case, offers, mix).problem(check=check)

    return [problem_of(mix) for mix in mixes]


def _without(
    case: Case,
    offers: Hardening,
    mixes: Sequence[Mix],
    kept: Sequence[Mix],
    found: Solution,
    deadline: Deadline,
) -> tuple[Mix | None, Solution]:
    """Return the cheapest plan without limits of integrity."""
    others = [mix for mix in mixes if mix not in kept]
    if not others:
        return None, found
    chosen = _free_of(_problems(case, offers, others), deadline)
    usd = chosen.found.usd_per_month
    if chosen.number is None or usd is None:
        return None, found if chosen.found.proved else NOT_FOUND
    if found.usd_per_month is not None and found.usd_per_month <= usd + CENT:
        return None, found
    return others[chosen.number], chosen.found


def _free_of(problems: Sequence[Callable[[Check], Problem]], deadline: Deadline) -> Chosen:
    """Return the cheapest plan without the limits; `NOT_FOUND` if the time ended before."""
    try:
        return cheapest_of(problems, limit_s=deadline.left_s(), clock=deadline.clock)
    except PlannerError:
        return Chosen(None, None, NOT_FOUND)


def _none_keeps(
    asked: PlanRequest, offers: Hardening, mixes: Sequence[Mix], deadline: Deadline
) -> Hardened:
    """Return the result if no choice of variants keeps the limits of integrity."""
    case = asked.case

    best = min(mixes, key=lambda mix: offers.weighed(mix, case.tiers).worst(offers.slo))
    weighed = offers.weighed(best, case.tiers)
    chosen = _free_of(_problems(case, offers, mixes), deadline)
    free_mix = None if chosen.number is None else mixes[chosen.number]
    without = _free(offers, case, free_mix, chosen.found, NONE)
    body = _body(offers, case, best, 0, len(mixes), without)
    built = "native" if all(len(o) == 1 for o in offers.offered) else "the best choice of variants"
    texts = [
        f"integrity: {key} of {getattr(offers.slo, key):g} is not kept by {built} "
        f"({_named(case, best)}): at most {_text(getattr(weighed, key).high)} at confidence "
        f"{offers.slo.confidence:g}, {_text(getattr(weighed, key).middle)} expected"
        for key in weighed.broken(offers.slo)
    ]
    texts += _blamed(offers, case, best, weighed.worst(offers.slo))
    if chosen.found.usd_per_month is not None:
        texts.append(
            f"integrity: without it a plan is {chosen.found.usd_per_month:.2f} USD a month"
        )
    return Hardened(asked, None, NONE, body, tuple(texts))


def _blamed(offers: Hardening, case: Case, mix: Mix, over: float) -> Iterable[str]:
    """Yield the tier with the most wrong answers, and a hint if more injections could suffice."""
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
            f"integrity: {variant.corrupt.hits} silent of {variant.corrupt.of:,.0f} injections "
            f"into {variant.name} are too little evidence: about {needed:,} without one would do, "
            "in every tier that is counted like it"
        )


def _body(
    offers: Hardening, case: Case, mix: Mix, kept: int, of: int, without: Free
) -> dict[str, object]:
    """`integrity` of plan.json."""
    weighed = offers.weighed(mix, case.tiers)
    asked = {key: getattr(offers.slo, key) for key in LIMITS}
    return {
        "asked": asked,
        "confidence": offers.slo.confidence,
        "level": offers.level,
        **_ends(weighed),
        "faults_per_node_month": _bounds(offers.faults.bounds(offers.level)),
        "tiers": {
            tier.name: {
                "variant": variant.name,
                "nodt": variant.nodt,
                "corrupt_p": _bounds(variant.corrupt.bounds(offers.level)),
                "injections": variant.corrupt.of,
                "wrong_share": _bounds(offers.corrupt_share(variant)),
                "crashes_by_faults_per_year": offers.crashes_per_year(variant),
            }
            for tier, variant in zip(case.tiers, mix, strict=True)
        },
        "choices": of,
        "choices_that_keep": kept,
        "without": without,
    }


def _free(offers: Hardening, case: Case, mix: Mix | None, free: Solution, found: Solution) -> Free:
    usd, own = free.usd_per_month, found.usd_per_month
    body: Free = {
        "usd_per_month": None if usd is None else round(usd, 2),
        "usd_less": None if usd is None or own is None else round(own - usd, 2),
        "variants": None,
        "found": usd is not None or free.proved,
    }
    if mix is None:
        return body
    names = {tier.name: v.name for tier, v in zip(case.tiers, mix, strict=True)}
    weighed = offers.weighed(mix, case.tiers)
    return {
        **body,
        "variants": names,
        "wrong_per_million": _bounds(weighed.wrong_per_million),
        "corrupt_s_per_month": _bounds(weighed.corrupt_s_per_month),
    }


def _words(without: Free, found: Solution) -> tuple[str, ...]:
    less, usd = without["usd_less"], without["usd_per_month"]
    if not without["found"]:
        return ("integrity: what it costs was not found in time",)
    if found.usd_per_month is None:
        if usd is None:
            return ("integrity: without it there is no plan either",)
        return (f"integrity: without it a plan is {usd:.2f} USD a month",)
    if less is None or less <= CENT:
        return ()
    least = "" if found.proved else "about "
    return (f"integrity: without it {least}{less:.2f} USD a month less",)


def _named(case: Case, mix: Mix) -> str:
    return ", ".join(f"{t.name} {v.name}" for t, v in zip(case.tiers, mix, strict=True))


def _ends(weighed: Weighed) -> dict[str, dict[str, float]]:
    return {key: _bounds(getattr(weighed, key)) for key in LIMITS}


def _bounds(one: Bounds) -> dict[str, float]:
    found = asdict(one)
    return {"expected": found["middle"], "low": found["low"], "high": found["high"]}


def _text(value: float) -> str:
    return f"{value:.4g}"
