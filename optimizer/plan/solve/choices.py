"""The cheapest of several problems, one per choice that is no number, such as a tier's software.

Each problem is solved with the cheapest plan so far as a ceiling; the cheapest of all optima is the
optimum of all. If a search ended at its time limit, its proved bound applies: no plan of any choice
costs less than the least of these bounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.errors import PlannerError
from optimizer.plan.solve.deadline import Check, Clock, Deadline
from optimizer.plan.solve.model import LIMIT_S, NONE, Solution, check_proof, solve
from optimizer.plan.solve.problem import Problem


@dataclass(frozen=True)
class Chosen:
    """The problem that has the plan (None: none has), and that plan; `gap` is over all."""

    number: int | None
    problem: Problem | None
    found: Solution


def cheapest_of(
    problems: Sequence[Callable[[Check], Problem]],
    *,
    limit_s: float = LIMIT_S,
    clock: Clock = time.monotonic,
) -> Chosen:
    """Return the cheapest plan of all problems, which are made one after the other.

    Parameters: limit_s [s] bounds all searches together, by `clock`; each may take its share of
    what is left, its making included.
    Raises: OutOfTimeError if the time ends before any plan, and before it is proved that there is
    none.
    """
    deadline = Deadline(limit_s, clock)
    best = Chosen(None, None, NONE)
    least, ended, cuts, solves, seen = math.inf, None, 0, 0, None
    for number, make in enumerate(problems):
        share = deadline.within(max(0.1, deadline.left_s()) / (len(problems) - number))
        try:
            problem = make(share.check)
            left_s = share.left_s()
            found = solve(problem, best.found.path, limit_s=left_s, clock=clock)
            found = check_proof(problem, found)
        except PlannerError as error:
            ended, least = error, 0.0
            continue
        cuts, solves = cuts + found.cuts, solves + found.solves
        seen = seen or found.breach
        if found.breach is not None and found.path is None:
            least = 0.0
        if found.usd_per_month is not None:
            assert found.gap is not None
            least = min(least, found.usd_per_month * (1.0 - found.gap))
            if best.found.usd_per_month is None or found.usd_per_month < best.found.usd_per_month:
                best = Chosen(number, problem, found)
    usd = best.found.usd_per_month
    if usd is None and ended is not None:
        raise ended
    gap: float | None = 0.0 if usd is None or usd <= 0 else max(0.0, 1.0 - least / usd)
    if usd is None and seen is not None:
        gap = None
    proof = best.found.proof if gap == 0.0 else "none"
    counted = replace(best.found, cuts=cuts, solves=solves, gap=gap, proof=proof, breach=seen)
    return replace(best, found=counted)
