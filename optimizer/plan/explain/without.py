"""Cost of a rule or a promise: the same question without it, solved again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from core.errors import InputError
from core.tolerances import CENT
from optimizer.plan.explain.curve import fleet_text
from optimizer.plan.inputs.case import Case
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import Solution, attempt

_SECONDS = 5.0  # of each solve
# The rules of domains, and what each is where it asks nothing.
DOMAIN_RULES: dict[str, object] = {
    "survive": False,
    "max_per_domain": None,
    "min_domains": None,
    "copies_apart": False,
}


@dataclass(frozen=True)
class Without:
    """The same question without one rule, without any domain, or without a promise.

    `usd_per_month` None: infeasible all the same, or (not `proved`) not decided: not in time, or
    with more placements than are listed.
    """

    limit: str
    usd_per_month: float | None
    fleet: str | None
    proved: bool

    def text(self, usd: float | None) -> str | None:
        """For people: what the rule costs, or that it alone is in the way; None where neither."""
        if self.usd_per_month is None:
            return None
        if usd is None:
            return f"{self.limit}: without it a plan is {self.usd_per_month:.2f} USD a month"
        less = usd - self.usd_per_month
        least = "" if self.proved else "at least "
        return (
            f"{self.limit}: without it {least}{less:.2f} USD a month less"
            if (less > CENT)
            else None
        )


def without_rules(case: Case, found: Solution, deadline: Deadline) -> tuple[Without, ...]:
    """Return the plans without each rule of the domains, and without all domains."""
    none_at_all = [("domains", replace(case, domains=()))] if case.domains else []
    return tuple(
        _asked_again(name, other, found, deadline.within(_SECONDS))
        for name, other in (*_one_less(case), *none_at_all)
    )


def without_promise(case: Case, found: Solution, deadline: Deadline) -> tuple[Without, ...]:
    """Return the plan without the promise of performability, if that limits a tier."""
    if case.users is None or case.users.machines is None:
        return ()
    free, own = replace(case, users=None), deadline.within(_SECONDS)
    return (_asked_again("performability", free, found, own),)


def _one_less(case: Case) -> Iterator[tuple[str, Case]]:
    for number, one in enumerate(case.domains):
        for rule, nothing in DOMAIN_RULES.items():
            if getattr(one, rule) != nothing:
                other = one.model_copy(update={rule: nothing})
                domains = (*case.domains[:number], other, *case.domains[number + 1 :])
                yield f"domains.{one.name}.{rule}", replace(case, domains=domains)


def _asked_again(name: str, case: Case, found: Solution, deadline: Deadline) -> Without:
    try:
        problem = case.problem(check=deadline.check)
    except (InputError, OutOfTimeError):  # more placements than are listed, or than there is time
        return Without(name, None, None, False)
    other = attempt(problem, found.path, limit_s=deadline.left_s(), clock=deadline.clock)
    fleet = None if other.path is None else fleet_text(other.path)
    return Without(name, other.usd_per_month, fleet, other.proved)


def of_rules(found: Solution, tried: tuple[Without, ...]) -> tuple[str, ...]:
    """Describe the binding limits, or those that prevent a plan."""
    return tuple(text for one in tried if (text := one.text(found.usd_per_month)) is not None)
