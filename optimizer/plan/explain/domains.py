"""Placement of a plan's machines, their service without a domain, and the cost of the rules.

The cost of a rule is the difference to the same question without it, solved again. The service is
evaluated without the worst domain of each level, gone for all tiers at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from core.errors import InputError, UnstableError
from core.tolerances import CENT
from optimizer.availability import sizes_at
from optimizer.plan.explain.curve import fleet_text
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.domains import Domain
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import Solution, attempt
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.problem import Path

_SECONDS = 5.0  # of each solve
_RULES: dict[str, object] = {
    "survive": False,
    "max_per_domain": None,
    "min_domains": None,
    "copies_apart": False,
}  # and what each is where it asks nothing


@dataclass(frozen=True)
class Without:
    """The same question without one rule of one level, or without any domain.

    `usd_per_month` None: infeasible all the same, or (not `proved`) not decided: not in time, or
    with more placements than are listed.
    """

    limit: str
    usd_per_month: float | None
    fleet: str | None
    proved: bool

    def text(self, usd: float | None) -> str | None:
        """Describe the cost of the rule, or that it alone prevents a plan; None for neither."""
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
    """Each rule left out alone, and all domains left out."""
    return tuple(
        _asked_again(name, other, found, deadline.within(_SECONDS))
        for name, other in (*_one_less(case), *_none_at_all(case))
    )


def _one_less(case: Case) -> Iterator[tuple[str, Case]]:
    for number, one in enumerate(case.domains):
        for rule, nothing in _RULES.items():
            if getattr(one, rule) != nothing:
                other = one.model_copy(update={rule: nothing})
                domains = (*case.domains[:number], other, *case.domains[number + 1 :])
                yield f"domains.{one.name}.{rule}", replace(case, domains=domains)


def _none_at_all(case: Case) -> Iterator[tuple[str, Case]]:
    if case.domains:
        yield "domains", replace(case, domains=())


def _asked_again(name: str, case: Case, found: Solution, deadline: Deadline) -> Without:
    try:
        problem = case.problem(check=deadline.check)
    except (InputError, OutOfTimeError):  # more placements than are listed, or than there is time
        return Without(name, None, None, False)
    other = attempt(problem, found.path, limit_s=deadline.left_s(), clock=deadline.clock)
    fleet = None if other.path is None else fleet_text(other.path)
    return Without(name, other.usd_per_month, fleet, other.proved)


def of_rules(found: Solution, tried: tuple[Without, ...]) -> tuple[str, ...]:
    """The binding limits, or those in the way, in words."""
    return tuple(text for one in tried if (text := one.text(found.usd_per_month)) is not None)


def domains_of(
    case: Case, path: Path | None, tried: tuple[Without, ...]
) -> dict[str, object] | None:
    """Return the domains for plan.json; None without stated domains."""
    if not case.domains:
        return None
    body: dict[str, object] = {
        "levels": [_level(one, case) for one in case.domains],
        "without": [
            {
                "limit": one.limit,
                "usd_per_month": _cents(one.usd_per_month),
                "fleet": one.fleet,
                "proved": one.proved,
            }
            for one in tried
        ],
    }
    if path is None:
        return body
    spread = {option.tier: _sizes(case, option) for option in path}
    gone = [_without_domain(case, path, level, spread) for level in range(len(case.domains))]
    return {**body, "spread": spread, "one_gone": gone}


def _level(one: Domain, case: Case) -> dict[str, object]:
    level = one.level(case.rates.crash_per_year)
    return {
        "name": one.name,
        "count": one.count,
        "failures_per_year": level.failures_per_year,
        "repair_s": one.repair_s,
        "dark": level.dark,
        "source": one.source,
        **{rule: getattr(one, rule) for rule in _RULES},
    }


def _sizes(case: Case, option: Option) -> dict[str, list[int]]:
    """Machines, standbys included, of each domain that has any, per level."""
    found = case.spread(option)
    assert found is not None  # an option that cannot be placed is none
    return {one.name: sizes_at(found.placement, n) for n, one in enumerate(case.domains)}


def _without_domain(
    case: Case, path: Path, level: int, spread: dict[str, dict[str, list[int]]]
) -> dict[str, object]:
    """The tiers' service without the fullest domain of that level, once standbys have taken
    over."""
    name, tiers, reduced = case.domains[level].name, {}, []
    for option in path:
        machines = option.needed + option.extra
        left = machines - spread[option.tier][name][0]
        serving = min(option.needed, left)
        read = (option.utilisation - option.written) * option.needed
        load = read / serving + option.written if serving else None
        tiers[option.tier] = {
            "machines": machines, "left": left, "needed": option.needed, "utilisation": load,
        }  # fmt: skip
        reduced.append((option, serving))
    body: dict[str, object] = {"level": name, "tiers": tiers}
    body["survives"] = all(serving >= option.needed for option, serving in reduced)
    return {**body, **_latency(case, reduced)}


def _latency(case: Case, reduced: list[tuple[Option, int]]) -> dict[str, float | None]:
    """Percentiles with so many servers; None where they cannot carry the load."""
    if not case.slo.latency_ms:
        return {}
    nothing = {f"p{q}_ms": None for q in case.slo.latency_ms}
    if any(serving < option.replicas for option, serving in reduced):
        return dict(nothing)
    path = tuple(replace(option, needed=serving) for option, serving in reduced)
    try:
        found = case.latency.middle(case.latency(path))
    except UnstableError:
        return dict(nothing)
    return {f"p{q}_ms": round(v, 2) if math.isfinite(v) else None for q, v in found.items()}


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
