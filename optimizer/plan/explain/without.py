"""Cost of a rule or a promise: the same case is solved again without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from core.errors import InputError
from core.tolerances import CENT
from optimizer.plan.explain.curve import fleet_text
from optimizer.plan.inputs.case import Case
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import Solution, attempt
from optimizer.plan.solve.spread import Rule

_SECONDS = 5.0  # of each solve
# The rules of domains, and the value of each that has no effect.
DOMAIN_RULES: dict[str, object] = {rule.name: rule.default for rule in fields(Rule)}


@dataclass(frozen=True)
class Without:
    """The plan without one rule, without any domain, or without a promise.

    `usd_per_month` None: still infeasible, or, if not `proved`, undecided: there was no time, or
    there are more placements than are listed.
    """

    limit: str
    usd_per_month: float | None
    fleet: str | None
    proved: bool

    def text(self, usd: float | None) -> str | None:
        """Return the cost of the rule, or that it alone prevents a plan, as text; else None."""
        if self.usd_per_month is None:
            return None
        if usd is None:
            return f"{self.limit}: without it a plan is {self.usd_per_month:.2f} USD a month"
        usd_less = usd - self.usd_per_month
        least = "" if self.proved else "at least "
        return (
            f"{self.limit}: without it {least}{usd_less:.2f} USD a month less"
            if (usd_less > CENT)
            else None
        )


def without_rules(case: Case, solution: Solution, deadline: Deadline) -> tuple[Without, ...]:
    """Return the plans without each rule of the domains, and without all domains."""
    no_domains = [("domains", replace(case, domains=()))] if case.domains else []
    return tuple(
        _solve_without(name, relaxed, solution, deadline.within(_SECONDS))
        for name, relaxed in (*_drop_rules(case), *no_domains)
    )


def without_promise(case: Case, solution: Solution, deadline: Deadline) -> tuple[Without, ...]:
    """Return the plan without the promise of performability, if that limits a tier."""
    if case.users is None or case.users.machines is None:
        return ()
    relaxed, search_deadline = replace(case, users=None), deadline.within(_SECONDS)
    return (_solve_without("performability", relaxed, solution, search_deadline),)


def _drop_rules(case: Case) -> Iterator[tuple[str, Case]]:
    for number, domain in enumerate(case.domains):
        for rule, default in DOMAIN_RULES.items():
            if getattr(domain, rule) != default:
                relaxed = domain.model_copy(update={rule: default})
                domains = (*case.domains[:number], relaxed, *case.domains[number + 1 :])
                yield f"domains.{domain.name}.{rule}", replace(case, domains=domains)


def _solve_without(name: str, case: Case, solution: Solution, deadline: Deadline) -> Without:
    try:
        problem = case.problem(check=deadline.check)
    except (InputError, OutOfTimeError):  # too many placements, or no time
        return Without(name, None, None, False)
    optimum = attempt(problem, solution.path, deadline)
    fleet = None if optimum.path is None else fleet_text(optimum.path)
    return Without(name, optimum.usd_per_month, fleet, optimum.proved)


def describe_rules(solution: Solution, rule_costs: tuple[Without, ...]) -> tuple[str, ...]:
    """Describe the binding limits, or those that prevent a plan."""
    return tuple(
        text
        for rule_cost in rule_costs
        if (text := rule_cost.text(solution.usd_per_month)) is not None
    )
