"""Cost of limping machines in a plan, and the cheapest countermeasure: a remedy, spares, or copies.

First a plan is made as if no machine limped. The difference of the plan to it (active machines,
standbys, replicas, larger types) was bought against limping, and a remedy must cost less. Then
plans are made with each remedy, its fleet and its price together, with spares alone, and with
replication alone (`single_measures.py`). An undecided one is marked; the plan does not depend on
these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

from core.errors import SparecraftError
from core.tolerances import CENT
from optimizer.plan.explain.curve import Budget, SpentError, fleet_text
from optimizer.plan.explain.single_measures import (
    fewest_copies,
    more_copies,
    replication_alone,
    spares_alone,
)
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.remedy import Remedy
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import FAMILIES, Path, Problem

_FEWER_SHARE = 1.0 / 6.0  # of the remaining time, for equally cheap fleets with fewer copies


class Row(TypedDict):
    """The cheapest fleet with one measure; without a fleet it has `cut` or `reason`.

    The row of a remedy also has its name, and its price beside the fleet's.
    """

    name: NotRequired[str]
    usd_per_month: float | None
    fleet: str | None
    cut: NotRequired[str]
    reason: NotRequired[str]
    usd_remedy: NotRequired[float]
    usd_fleet: NotRequired[float | None]


class Cheapest(TypedDict):
    """The cheapest measure (with its name if it is a remedy), and those that may be as cheap."""

    way: str | None
    name: str | None
    usd_per_month: float | None
    equal: list[str]
    perhaps_cheaper: list[str]
    perhaps_equal: list[str]


class AgainstLimping(TypedDict):
    """The fleet without limping, the plan's additions to it, and each measure.

    `bought` is by tier. Replication without an additional copy has a cost and a `reason`, and is
    no measure. `remedies` come cheapest first.
    """

    without_limping: Row
    usd_more: float | None
    bought: dict[str, dict[str, int | str]]
    spares: Row
    replication: Row
    remedies: list[Row]
    cheapest: Cheapest


_NONE: Row = {"usd_per_month": None, "fleet": None}
_NO_MEASURE: Cheapest = {
    "way": None,
    "name": None,
    "usd_per_month": None,
    "equal": [],
    "perhaps_cheaper": [],
    "perhaps_equal": [],
}


@dataclass(frozen=True)
class _Attempt:
    """A plan with one measure: its row, its problem if it was solved, and its fleet if any."""

    row: Row
    problem: Problem | None = None
    path: Path | None = None


def solves_of(case: Case) -> int:
    """Return the most solves of `plan_against_limping`.

    Each measure is solved once, and once without each limit.
    """
    return 1 + (2 + len(case.remedies)) * (1 + len(FAMILIES))


def plan_against_limping(
    case: Case, problem: Problem, solution: Solution, budget: Budget
) -> AgainstLimping:
    """Plan again with each measure against limping.

    Parameters: problem and solution of the case as it is.
    """
    check = budget.check
    plain = _plan("none", lambda: case.without_limping().problem(check=check), budget)
    remedied = [_plan_with_remedy(case, remedy, budget) for remedy in case.remedies]
    start = _fewest_copies_start(case, plain, budget)
    spares = _plan_alone("spares", spares_alone, problem, start, budget)
    copies = _plan_alone("replication", replication_alone, problem, start, budget)
    if (
        start.path is not None
        and copies.path is not None
        and not more_copies(start.path, copies.path)
    ):
        copies.row["reason"] = "no copy more is needed"
    machines = f" with at most {case.max_nodes} machines a tier (max_nodes)"
    bounds = (machines, _copies_bound(case, start.path), *[machines] * len(remedied))
    for way, within in zip((spares, copies, *remedied), bounds, strict=True):
        if way.problem is not None and way.path is None:
            way.row["reason"] = _explain_infeasible(way.problem, within, budget)
    rows = [attempt.row for attempt in remedied]
    priced_rows = [(usd, row) for row in rows if (usd := row["usd_per_month"]) is not None]
    usd_plan, usd_plain = solution.usd_per_month, plain.row["usd_per_month"]
    free = usd_plan is not None and usd_plain is not None and usd_plan <= usd_plain + CENT
    cheapest = _find_cheapest(solution, spares.row, copies.row, rows)
    if usd_plan is not None and free:  # limping costs the plan nothing: no measure can be cheaper
        cheapest = {**_NO_MEASURE, "way": "nothing", "usd_per_month": round(usd_plan, 2)}
    return {
        "without_limping": plain.row,
        "usd_more": (
            None if usd_plan is None or usd_plain is None else round(usd_plan - usd_plain, 2)
        ),
        "bought": {} if free else _additions(plain.path, solution.path),
        "spares": spares.row,
        "replication": copies.row,
        "remedies": [*(row for _, row in sorted(priced_rows, key=lambda pair: pair[0])),
                     *(row for row in rows if row["usd_per_month"] is None)],
        "cheapest": cheapest,
    }  # fmt: skip


def _fewest_copies_start(case: Case, plain: _Attempt, budget: Budget) -> _Attempt:
    """Return the start for spares and copies: `plain`, with the fewest copies at its price."""
    if plain.problem is None or plain.path is None:
        return plain
    try:
        part = budget.part(len(case.tiers) ** 2 * case.limits.max_replicas, _FEWER_SHARE)
    except SpentError:
        return plain

    def solved(problem: Problem) -> Path | None:
        return _plan("fewer copies", lambda: problem, part).path

    return replace(plain, path=fewest_copies(plain.problem, plain.path, solved))


def _plan_alone(
    name: str,
    restrict: Callable[[Problem, Path], Problem],
    problem: Problem,
    start: _Attempt,
    budget: Budget,
) -> _Attempt:
    """Return the plan with one measure only, from the fleet without limping."""
    path = start.path
    if path is not None:
        return _plan(name, lambda: restrict(problem, path), budget)
    if "cut" in start.row:
        return _Attempt({**_NONE, "cut": f"{start.row['cut']}, as was the fleet if none limped"})
    return _Attempt({**_NONE, "reason": "nothing is feasible even if no machine limps"})


def _plan(name: str, make: Callable[[], Problem], budget: Budget) -> _Attempt:
    """Return the cheapest fleet of this problem; an error here does not stop the plan."""
    budget.say(f"limping: {name}")
    try:
        budget.left_s()
        problem = make()
        solution = budget.solve(problem)
    except SpentError as ended:
        return _Attempt({**_NONE, "cut": f"cut {ended}"})
    except SparecraftError as error:
        return _Attempt({**_NONE, "cut": f"cut by an error: {error}"})
    if solution.path is None:
        return _Attempt({**_NONE}, problem)
    row: Row = {"usd_per_month": round(cost(solution.path), 2), "fleet": fleet_text(solution.path)}
    return _Attempt(row, problem, solution.path)


def _plan_with_remedy(case: Case, remedy: Remedy, budget: Budget) -> _Attempt:
    def problem() -> Problem:
        return case.with_remedy(remedy).problem(check=budget.check)

    attempt = _plan(remedy.name, problem, budget)
    fleet = attempt.row["usd_per_month"]
    total = None if fleet is None else round(fleet + remedy.usd_per_month, 2)
    row: Row = {
        "name": remedy.name,
        **attempt.row,
        "usd_remedy": remedy.usd_per_month,
        "usd_fleet": fleet,
        "usd_per_month": total,
    }
    return replace(attempt, row=row)


def _copies_bound(case: Case, plain: Path | None) -> str:
    most = case.limits.max_replicas
    if plain is not None and all(option.replicas >= most for option in plain):
        return f", as max_replicas = {most} allows no copy more"
    return f" with at most {most} copies (max_replicas) and no spare more"


def _explain_infeasible(problem: Problem, within: str, budget: Budget) -> str:
    """Return, as text, the limits of which the removal of one would make a fleet feasible."""
    text = f"not feasible{within}"
    if not all(problem.options):
        return f"{text}: no such fleet carries the load"
    blamed = []
    for family in FAMILIES:
        without = problem.without(family)
        try:
            if without != problem and budget.solve(without).path is not None:
                blamed.append(family)
        except (SpentError, SparecraftError):
            return f"{text}; which limit is in the way was not found in time"
    if not blamed:
        return f"{text}: no other single limit is in the way"
    return f"{text}: it would be without the limit of {' or '.join(blamed)}"


def _find_cheapest(
    solution: Solution, spares: Row, copies: Row, remedies: Sequence[Row]
) -> Cheapest:
    """Return the cheapest of all measures.

    way: spares, replication, plan (a mix of both, or other types, and cheaper than both), remedy,
    or None if there is none. Of equally cheap measures it is the first in this order, and `equal`
    has the others that are bought. Fleets with spares or copies alone are also candidates of the
    plan. So beside a proved plan an undecided measure is at best as cheap as the plan; if the
    proof is that there is no plan, such a measure has none either.
    """
    usd_plan = solution.usd_per_month
    cut = [way for way, row in (("spares", spares), ("replication", copies)) if "cut" in row]
    perhaps_cheaper = [
        *([] if solution.proved else cut),
        *(r["name"] for r in remedies if "cut" in r),
    ]
    usd: dict[tuple[str, str | None], float | None] = {
        ("spares", None): spares["usd_per_month"],
        ("replication", None): None if "reason" in copies else copies["usd_per_month"],
        ("plan", None): usd_plan,
        **{("remedy", row["name"]): row["usd_per_month"] for row in remedies},
    }
    priced = {key: value for key, value in usd.items() if value is not None}
    if not priced:
        return {**_NO_MEASURE, "perhaps_cheaper": perhaps_cheaper}
    least = min(priced.values())
    (way, name), *ties = [key for key, value in priced.items() if value <= least + CENT]
    is_plan_cheapest = usd_plan is not None and usd_plan <= least + CENT
    return {
        "way": way,
        "name": name,
        "usd_per_month": round(least, 2),
        "equal": [tied_name or tied_way for tied_way, tied_name in ties if tied_way != "plan"],
        "perhaps_cheaper": perhaps_cheaper,
        "perhaps_equal": cut if solution.proved and is_plan_cheapest else [],
    }


def _additions(plain: Path | None, plan: Path | None) -> dict[str, dict[str, int | str]]:
    """Return the additions to the fleet without limping machines, for tiers that differ."""
    if plain is None or plan is None:
        return {}
    changed = {}
    for old, new in zip(plain, plan, strict=True):
        differences = {
            "nodes": new.nodes - old.nodes,
            "standby": new.standby - old.standby,
            "replicas": new.replicas - old.replicas,
        }
        additions: dict[str, int | str] = {
            key: count for key, count in differences.items() if count
        }
        if new.instance.name != old.instance.name:
            additions["instance_type"] = f"{new.instance.name} in place of {old.instance.name}"
        if additions:
            changed[new.tier] = additions
    return changed
