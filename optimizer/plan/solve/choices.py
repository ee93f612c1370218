"""The cheapest of several problems, one per choice that is not a number: a tier's software, say.

Each problem is solved with the cheapest plan so far as a ceiling; the cheapest of all optima is the
optimum of all. If a search ended at its time limit, its proved bound applies: no plan of any choice
costs less than the least of these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.errors import PlannerError
from optimizer.plan.solve.deadline import Check, Deadline, OutOfTimeError
from optimizer.plan.solve.model import NONE, Solution, check_proof, solve
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Problem


@dataclass(frozen=True)
class Chosen:
    """The problem with the cheapest plan (None: no problem has one), and that plan.

    The `gap` of `found` is over all problems. `decided`: number of problems whose optimum is
    proved, or for which it is proved that there is no plan.
    """

    number: int | None
    problem: Problem | None
    found: Solution
    decided: int = 0


def cheapest_of(problems: Sequence[Callable[[Check], Problem]], deadline: Deadline) -> Chosen:
    """Return the cheapest plan of all problems, which are made one after the other.

    Parameters: deadline of all searches together. To make a problem and solve it may take an equal
    share of the time that is left.
    Raises: OutOfTimeError if the time ends before any plan is found, or proved not to exist.
    """
    best = Chosen(None, None, NONE)
    least, last_error, cuts, solves, breach, decided = math.inf, None, 0, 0, None, 0
    for number, make in enumerate(problems):
        share = deadline.within(max(0.1, deadline.left_s()) / (len(problems) - number))
        try:
            problem = make(share.check)
            solution = check_proof(problem, solve(problem, best.found.path, share))
        except PlannerError as error:
            last_error, least = error, 0.0
            continue
        cuts, solves = cuts + solution.cuts, solves + solution.solves
        decided += solution.proved
        breach = breach or solution.breach
        if solution.breach is not None and solution.path is None:
            least = 0.0
        if solution.usd_per_month is not None:
            assert solution.gap is not None
            least = min(least, solution.usd_per_month * (1.0 - solution.gap))
            if solution.usd_per_month < cost(best.found.path):
                best = Chosen(number, problem, solution)
    usd = best.found.usd_per_month
    if usd is None and last_error is not None:
        raise _none_in_time(last_error, decided, len(problems), deadline.seconds)
    gap: float | None = 0.0 if usd is None or usd <= 0 else max(0.0, 1.0 - least / usd)
    if usd is None and breach is not None:
        gap = None
    proof = best.found.proof if gap == 0.0 else "none"
    combined = replace(best.found, cuts=cuts, solves=solves, gap=gap, proof=proof, breach=breach)
    return replace(best, found=combined, decided=decided)


def _none_in_time(
    last_error: PlannerError, decided: int, count: int, limit_s: float
) -> PlannerError:
    """Return the error of the last search, with the time and the choices of all of them."""
    if count == 1 or not isinstance(last_error, OutOfTimeError):
        return last_error
    return OutOfTimeError(
        last_error.place,
        expected=f"a plan, or a proof that none exists, of {count} choices within {limit_s:.3g} s",
        got=f"no plan, and a proof for {decided} of them",
        hint="Offer fewer variants, lower max_nodes or max_replicas, or name the tiers' "
        "instance_types.",
    )
