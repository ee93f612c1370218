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
from typing import TYPE_CHECKING, NotRequired, TypedDict

from core.errors import SparecraftError
from core.tolerances import CENT
from optimizer.plan.explain.curve import Budget, SpentError, fleet_text
from optimizer.plan.explain.single_measures import (
    fewest_copies,
    more_copies,
    replication_alone,
    spares_alone,
)
from optimizer.plan.solve.model import Solution
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import FAMILIES, Problem

if TYPE_CHECKING:
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.remedy import Remedy
    from optimizer.plan.solve.problem import Path

_FEWER_SHARE = 1.0 / 6.0  # of the time that is left, for equally cheap fleets with fewer copies


class Row(TypedDict):
    """The cheapest fleet of one way out; without one `cut` or the `reason`. A remedy's also has its
    name, and its price beside the fleet's."""

    name: NotRequired[str]
    usd_per_month: float | None
    fleet: str | None
    cut: NotRequired[str]
    reason: NotRequired[str]
    usd_remedy: NotRequired[float]
    usd_fleet: NotRequired[float | None]


class Cheapest(TypedDict):
    """The cheapest way, a remedy's name, equally cheap ones, and what may be so."""

    way: str | None
    name: str | None
    usd_per_month: float | None
    equal: list[str]
    perhaps_cheaper: list[str]
    perhaps_equal: list[str]


class AgainstLimping(TypedDict):
    """The fleet if nothing limped, what the plan has beyond it, each way out.

    `bought` is by tier. Replication without a copy more has a cost and a `reason`: no answer by
    copies. `remedies` come cheapest first.
    """

    without_limping: Row
    usd_more: float | None
    bought: dict[str, dict[str, int | str]]
    spares: Row
    replication: Row
    remedies: list[Row]
    cheapest: Cheapest


_NONE: Row = {"usd_per_month": None, "fleet": None}


@dataclass(frozen=True)
class _Tried:
    """One way planned with: its row, its problem where that was solved, and its fleet if any."""

    row: Row
    problem: Problem | None = None
    path: Path | None = None


def solves_of(case: Case) -> int:
    """Return the largest time of `against_limping`: each way once, and once without each limit."""
    return 1 + (2 + len(case.remedies)) * (1 + len(FAMILIES))


def against_limping(
    case: Case, problem: Problem, found: Solution, budget: Budget
) -> AgainstLimping:
    """Plan again for each way out.

    Parameters: problem and found, of the case as it is.
    """
    check = budget.check
    plain = _planned("none", lambda: case.without_limping().problem(check=check), budget)
    cured = [_with_remedy(case, remedy, budget) for remedy in case.remedies]
    few = _few_copies(case, plain, budget)
    spares = _alone("spares", spares_alone, problem, few, budget)
    copies = _alone("replication", replication_alone, problem, few, budget)
    if few.path is not None and copies.path is not None and not more_copies(few.path, copies.path):
        copies.row["reason"] = "no copy more is needed"
    machines = _machines_bound(case)
    bounds = (machines, _copies_bound(case, few.path), *[machines] * len(cured))
    for way, within in zip((spares, copies, *cured), bounds, strict=True):
        if way.problem is not None and way.path is None:
            way.row["reason"] = _why(way.problem, within, budget)
    rows = [one.row for one in cured]
    known = [(usd, row) for row in rows if (usd := row["usd_per_month"]) is not None]
    own, less = found.usd_per_month, plain.row["usd_per_month"]
    free = own is not None and less is not None and own <= less + CENT
    return {
        "without_limping": plain.row,
        "usd_more": None if own is None or less is None else round(own - less, 2),
        "bought": {} if free else _bought(plain.path, found.path),
        "spares": spares.row,
        "replication": copies.row,
        "remedies": [*(row for _, row in sorted(known, key=lambda one: one[0])),
                     *(row for row in rows if row["usd_per_month"] is None)],
        "cheapest": _nothing(found) if free else _cheapest(found, spares.row, copies.row, rows),
    }  # fmt: skip


def _few_copies(case: Case, plain: _Tried, budget: Budget) -> _Tried:
    """Return the start for spares and copies: as `plain`, with the fewest copies for its price."""
    if plain.problem is None or plain.path is None:
        return plain
    try:
        own = budget.part(len(case.tiers) ** 2 * case.limits.max_replicas, _FEWER_SHARE)
    except SpentError:
        return plain

    def solved(problem: Problem) -> Path | None:
        return _planned("fewer copies", lambda: problem, own).path

    return replace(plain, path=fewest_copies(plain.problem, plain.path, solved))


def _alone(
    name: str,
    held: Callable[[Problem, Path], Problem],
    problem: Problem,
    plain: _Tried,
    budget: Budget,
) -> _Tried:
    """Return the plan with one measure only, from the fleet without limping."""
    path = plain.path
    if path is not None:
        return _planned(name, lambda: held(problem, path), budget)
    if "cut" in plain.row:
        return _Tried({**_NONE, "cut": f"{plain.row['cut']}, as was the fleet if none limped"})
    return _Tried({**_NONE, "reason": "nothing is feasible even if no machine limps"})


def _planned(name: str, make: Callable[[], Problem], budget: Budget) -> _Tried:
    """Return the cheapest fleet of this problem; an error here does not stop the plan."""
    budget.say(f"limping: {name}")
    try:
        budget.left_s()
        problem = make()
        found = budget.solve(problem)
    except SpentError as ended:
        return _Tried({**_NONE, "cut": f"cut {ended}"})
    except SparecraftError as error:
        return _Tried({**_NONE, "cut": f"cut by an error: {error}"})
    return _Tried({**_NONE}, problem) if found.path is None else _row_of(problem, found.path)


def _row_of(problem: Problem, path: Path) -> _Tried:
    return _Tried({"usd_per_month": round(cost(path), 2), "fleet": fleet_text(path)}, problem, path)


def _with_remedy(case: Case, remedy: Remedy, budget: Budget) -> _Tried:
    def problem() -> Problem:
        return case.with_remedy(remedy).problem(check=budget.check)

    found = _planned(remedy.name, problem, budget)
    fleet = found.row["usd_per_month"]
    total = None if fleet is None else round(fleet + remedy.usd_per_month, 2)
    row: Row = {
        "name": remedy.name,
        **found.row,
        "usd_remedy": remedy.usd_per_month,
        "usd_fleet": fleet,
        "usd_per_month": total,
    }
    return replace(found, row=row)


def _machines_bound(case: Case) -> str:
    return f" with at most {case.max_nodes} machines a tier (max_nodes)"


def _copies_bound(case: Case, plain: Path | None) -> str:
    most = case.limits.max_replicas
    if plain is not None and all(one.replicas >= most for one in plain):
        return f", as max_replicas = {most} allows no copy more"
    return f" with at most {most} copies (max_replicas) and no spare more"


def _why(problem: Problem, within: str, budget: Budget) -> str:
    """Return the limits without one of which there would be such a fleet."""
    text = f"not feasible{within}"
    if not all(problem.options):
        return f"{text}: no such fleet carries the load"
    blamed = []
    for family in FAMILIES:
        other = problem.without(family)
        try:
            if other != problem and budget.solve(other).path is not None:
                blamed.append(family)
        except (SpentError, SparecraftError):
            return f"{text}; which limit is in the way was not found in time"
    if not blamed:
        return f"{text}: no other single limit is in the way"
    return f"{text}: it would be without the limit of {' or '.join(blamed)}"


def _nothing(found: Solution) -> Cheapest:
    """Limping costs the plan nothing, so nothing else can be cheaper, decided or not."""
    assert found.usd_per_month is not None
    return _way("nothing", round(found.usd_per_month, 2))


def _way(
    way: str | None,
    usd: float | None,
    name: str | None = None,
    equal: Sequence[str] = (),
    perhaps_cheaper: Sequence[str] = (),
    perhaps_equal: Sequence[str] = (),
) -> Cheapest:
    return {
        "way": way,
        "name": name,
        "usd_per_month": usd,
        "equal": list(equal),
        "perhaps_cheaper": list(perhaps_cheaper),
        "perhaps_equal": list(perhaps_equal),
    }


def _cheapest(found: Solution, spares: Row, copies: Row, remedies: Sequence[Row]) -> Cheapest:
    """Return the cheapest of all measures.

    way: spares, replication, plan (cheaper than both: its own mix of them, or other types), remedy,
    or None if none was found. Of equally cheap ones it is the first of these, and `equal` has
    the others that are bought. Spares and copies alone are fleets that the plan might have been:
    beside a proved plan undecided ones are at best as cheap as it, and where there is none, none.
    """
    own = found.usd_per_month
    cut = [way for way, row in (("spares", spares), ("replication", copies)) if "cut" in row]
    cheaper = [*([] if found.proved else cut), *(r["name"] for r in remedies if "cut" in r)]
    usd: dict[tuple[str, str | None], float | None] = {
        ("spares", None): spares["usd_per_month"],
        ("replication", None): None if "reason" in copies else copies["usd_per_month"],
        ("plan", None): own,
        **{("remedy", row["name"]): row["usd_per_month"] for row in remedies},
    }
    known = {key: value for key, value in usd.items() if value is not None}
    if not known:
        return _way(None, None, perhaps_cheaper=cheaper)
    least = min(known.values())
    (way, name), *others = [key for key, value in known.items() if value <= least + CENT]
    beside = own is not None and own <= least + CENT
    equal = [other or also for also, other in others if also != "plan"]
    maybe = cut if found.proved and beside else []
    return _way(way, round(least, 2), name, equal, cheaper, maybe)


def _bought(plain: Path | None, plan: Path | None) -> dict[str, dict[str, int | str]]:
    """Return the additions to the fleet without limping machines, for tiers that differ."""
    if plain is None or plan is None:
        return {}
    changed = {}
    for old, new in zip(plain, plan, strict=True):
        more = {
            "nodes": new.nodes - old.nodes,
            "standby": new.standby - old.standby,
            "replicas": new.replicas - old.replicas,
        }
        bought: dict[str, int | str] = {key: count for key, count in more.items() if count}
        if new.instance.name != old.instance.name:
            bought["instance_type"] = f"{new.instance.name} in place of {old.instance.name}"
        if bought:
            changed[new.tier] = bought
    return changed
