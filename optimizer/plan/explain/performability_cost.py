"""Price of a promise of performability: the same question without it."""

from __future__ import annotations

from dataclasses import replace

from core.tolerances import CENT
from optimizer.plan.inputs.case import Case
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.model import Solution, attempt

_SECONDS = 5.0


def of_promise(case: Case, found: Solution, deadline: Deadline) -> tuple[str, ...]:
    """One line where the promise makes the plan dearer, or is why there is none."""
    if case.users is None or case.users.machines is None:
        return ()
    own = deadline.within(_SECONDS)
    try:
        problem = replace(case, users=None).problem(check=own.check)
    except OutOfTimeError:
        return ()
    free = attempt(problem, found.path, limit_s=own.left_s(), clock=own.clock)
    if free.usd_per_month is None:
        return ()
    if found.usd_per_month is None:
        return (
            f"performability: at most {case.users.machines} machines of {case.users.tier} keep it; "
            f"without it a plan is {free.usd_per_month:.2f} USD a month",
        )
    less = found.usd_per_month - free.usd_per_month
    return (f"performability: without it {less:.2f} USD a month less",) if less > CENT else ()
