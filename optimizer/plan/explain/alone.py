"""One way against limping by itself: spares without a copy more, or copies without a spare more.

Both begin with the cheapest fleet that would do if no machine limped, of several equally cheap ones
one with few copies, and keep its machine types.

    spares        replicas are held. How many machines a tier has is free, and what they do: carry
                  load, stand in (ara), stand by (pf). Were standbys alone free, the question would
                  be answered before it is asked: a pool replaces crashed machines, no limping ones.
    replication   the replicas of each tier may rise. Copies are load, so a tier that gets k times
                  the copies may have k times the machines that carry it; there are no other
                  machines more, so spares do not grow. What the machines do is free here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from optimizer.plan.solve.options import Option
from optimizer.plan.solve.problem import Path, Problem
from optimizer.plan.solve.screen import cost
from optimizer.plan.solve.table import columns
from optimizer.tolerances import CENT

Kept = Callable[[Option, Option], bool]  # an option, the tier as it is if nothing limps


def fewest_copies(problem: Problem, plain: Path, solved: Callable[[Problem], Path | None]) -> Path:
    """A fleet as cheap as `plain`, none of whose tiers could do with fewer copies at that price."""
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
    """The problem with more machines than `plain` as the only way out."""
    return _held(problem, plain, lambda one, old: one.replicas == old.replicas)


def replication_alone(problem: Problem, plain: Path) -> Problem:
    """The problem with more copies than `plain` as the only way out."""
    return _held(problem, plain, _no_spare_more)


def _no_spare_more(one: Option, old: Option) -> bool:
    """Whether all machines beyond those of `old` carry the load of more copies."""
    times = one.upstream * one.replicas / (old.upstream * old.replicas)
    more = min(max(0, one.needed - old.needed), math.ceil((times - 1.0) * old.needed))
    return _machines(one) <= _machines(old) + more


def _machines(one: Option) -> int:
    return one.needed + one.extra


def _held(problem: Problem, plain: Path, kept: Kept) -> Problem:
    tiers = zip(problem.options, plain, strict=True)
    return replace(problem, options=tuple(_of_type(tier, old, kept) for tier, old in tiers))


def _of_type(tier: Sequence[Option], old: Option, kept: Kept) -> tuple[Option, ...]:
    c = columns(tier)
    # Option by option only where columns do not tell: there may be hundreds of thousands.
    some = (c.vcpus == old.instance.vcpus) & (c.replicas >= old.replicas)
    found = (tier[int(row)] for row in np.flatnonzero(some))
    return tuple(one for one in found if one.instance.name == old.instance.name and kept(one, old))
