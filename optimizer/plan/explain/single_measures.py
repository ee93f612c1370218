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

import numpy as np

from core.arrays import Floats
from core.tolerances import CENT
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem
from optimizer.plan.solve.table import Columns, columns

Most = Callable[[Columns, Option], Floats]
"""Possible numbers of machines of each option, given the tier without limping."""


def fewest_copies(problem: Problem, plain: Path, solve: Callable[[Problem], Path | None]) -> Path:
    """Return a fleet as cheap as `plain` with the fewest copies in each tier."""
    for fewer in (old.tier for old in plain if old.replicas > 1):
        most = [old.replicas - (old.tier == fewer) for old in plain]
        tiers = (
            _options_within(*pair, cost(plain)) for pair in zip(problem.options, most, strict=True)
        )
        path = solve(replace(problem, options=tuple(tiers)))
        if path is not None and cost(path) <= cost(plain) + CENT:
            return fewest_copies(problem, path, solve)
    return plain


def _options_within(tier: Sequence[Option], replicas: int, usd: float) -> tuple[Option, ...]:
    """Return the options with at most so many replicas, up to this price."""
    c = columns(tier)
    rows = np.flatnonzero((c.replicas <= replicas) & (c.usd <= usd + CENT))
    return tuple(tier[int(row)] for row in rows)


def spares_alone(problem: Problem, plain: Path) -> Problem:
    """Return the problem in which more machines than `plain` are the only measure."""
    return _restrict(
        problem, plain, lambda c, old: np.where(c.replicas == old.replicas, np.inf, 0.0)
    )


def replication_alone(problem: Problem, plain: Path) -> Problem:
    """Return the problem in which more copies than `plain` are the only measure."""
    return _restrict(problem, plain, _machines_for_copies)


def more_copies(plain: Path, path: Path) -> bool:
    """True if a tier has more copies than in `plain`."""
    return any(new.replicas > old.replicas for old, new in zip(plain, path, strict=True))


def _machines_for_copies(c: Columns, old: Option) -> Floats:
    """Return machines such that those beyond `old` carry the load of additional copies."""
    times = c.upstream * c.replicas / (old.upstream * old.replicas)
    more = np.minimum(np.maximum(0, c.needed - old.needed), np.ceil((times - 1.0) * old.needed))
    return old.machines + more


def _restrict(problem: Problem, plain: Path, most: Most) -> Problem:
    tiers = zip(problem.options, plain, strict=True)
    return replace(problem, options=tuple(_options_of_type(tier, old, most) for tier, old in tiers))


def _options_of_type(tier: Sequence[Option], old: Option, most: Most) -> tuple[Option, ...]:
    c = columns(tier)
    machines = most(c, old)
    # Columns filter first, since there may be hundreds of thousands of options.
    matching = (
        (c.vcpus == old.instance.vcpus) & (c.replicas >= old.replicas) & (c.nodes <= machines)
    )
    candidates = ((tier[int(row)], machines[row]) for row in np.flatnonzero(matching))
    name = old.instance.name
    return tuple(
        option
        for option, most_machines in candidates
        if option.instance.name == name and option.machines <= most_machines
    )
