"""One measure against limping alone: spares without more copies, or copies without more spares.

Both begin with the cheapest fleet that would be enough without limping, of equally cheap ones one
with few copies, and keep its machine types.

    spares        replicas are fixed. The number of machines of a tier is free, and their use: carry
                  load, extra (ara), stand by (pf). Standbys alone would not help, because a pool
                  replaces crashed machines, not limping ones.
    replication   the replicas of each tier may rise. Copies are load, so a tier with k times the
                  copies may have k times the machines that carry it; there are no further machines.
                  The use of the machines is free here too: if fewer carry load, more are spare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from core.arrays import Floats
from core.tolerances import CENT
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem
from optimizer.plan.solve.table import columns

if TYPE_CHECKING:
    from optimizer.plan.solve.table import Columns
Most = Callable[["Columns", Option], "Floats"]
"""Possible numbers of machines of each option, given the tier without limping."""


def fewest_copies(problem: Problem, plain: Path, solved: Callable[[Problem], Path | None]) -> Path:
    """Return a fleet as cheap as `plain` with the fewest copies in each tier."""
    for fewer in (old.tier for old in plain if old.replicas > 1):
        most = [old.replicas - (old.tier == fewer) for old in plain]
        tiers = (_within(*one, cost(plain)) for one in zip(problem.options, most, strict=True))
        found = solved(replace(problem, options=tuple(tiers)))
        if found is not None and cost(found) <= cost(plain) + CENT:
            return fewest_copies(problem, found, solved)
    return plain


def _within(tier: Sequence[Option], replicas: int, usd: float) -> tuple[Option, ...]:
    """Options with at most so many replicas, at this price."""
    c = columns(tier)
    rows = np.flatnonzero((c.replicas <= replicas) & (c.usd <= usd + CENT))
    return tuple(tier[int(row)] for row in rows)


def spares_alone(problem: Problem, plain: Path) -> Problem:
    """Return the problem in which more machines than `plain` are the only measure."""
    return _restricted(
        problem, plain, lambda c, old: np.where(c.replicas == old.replicas, np.inf, 0.0)
    )


def replication_alone(problem: Problem, plain: Path) -> Problem:
    """Return the problem in which more copies than `plain` are the only measure."""
    return _restricted(problem, plain, _no_spare_more)


def more_copies(plain: Path, path: Path) -> bool:
    """True if a tier has more copies than in `plain`."""
    return any(new.replicas > old.replicas for old, new in zip(plain, path, strict=True))


def _no_spare_more(c: Columns, old: Option) -> Floats:
    """Return machines such that those beyond `old` carry the load of additional copies."""
    times = c.upstream * c.replicas / (old.upstream * old.replicas)
    more = np.minimum(np.maximum(0, c.needed - old.needed), np.ceil((times - 1.0) * old.needed))
    return _machines(old) + more


def _machines(one: Option) -> int:
    return one.needed + one.extra


def _restricted(problem: Problem, plain: Path, most: Most) -> Problem:
    tiers = zip(problem.options, plain, strict=True)
    return replace(problem, options=tuple(_of_type(tier, old, most) for tier, old in tiers))


def _of_type(tier: Sequence[Option], old: Option, most: Most) -> tuple[Option, ...]:
    c = columns(tier)
    machines = most(c, old)
    # Option by option only where columns do not tell: there may be hundreds of thousands.
    some = (c.vcpus == old.instance.vcpus) & (c.replicas >= old.replicas) & (c.nodes <= machines)
    found = ((tier[int(row)], machines[row]) for row in np.flatnonzero(some))
    name = old.instance.name
    return tuple(one for one, n in found if one.instance.name == name and _machines(one) <= n)
