"""What can be settled before the solver runs: hopeless replicas, a first plan, options too dear.

A choice of replicas whose largest fleets are too slow is hopeless. A first plan, found by walking
up the sizes of all tiers together and then down each tier alone, bounds the cost: an option that
with the cheapest other tiers costs more than the first plan cannot be in the best one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optimizer.plan.options import Option
from optimizer.plan.problem import Path, Problem, loss, too_slow, violations

Group = tuple[int, int]  # (upstream amplification, replicas)
Groups = Mapping[Group, list[Option]]
_STEPS = 12  # sizes tried on the way up
_DOWN = 40  # cheaper options tried per tier on the way down


def by_group(tier: Sequence[Option]) -> dict[Group, list[Option]]:
    """Options by level and replicas, cheapest first."""
    groups: dict[Group, list[Option]] = {}
    for option in sorted(tier, key=lambda o: o.usd_per_month):
        groups.setdefault((option.upstream, option.replicas), []).append(option)
    return groups


def routes(tiers: Sequence[Groups]) -> Iterator[tuple[Group, ...]]:
    """All ways through the levels: (1, r1), (r1, r2), (r1 r2, r3), ..."""
    for route in itertools.product(*(tier.keys() for tier in tiers)):
        level = 1
        for upstream, replicas in route:
            if upstream != level:
                break
            level *= replicas
        else:
            yield route


def front(columns: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the rows that no other row matches or undercuts in every column."""
    table = np.array(columns, dtype=float).T
    kept: list[int] = []
    for index in np.lexsort(table.T[::-1]):
        if not kept or not np.any(np.all(table[kept] <= table[index], axis=1)):
            kept.append(int(index))
    return kept


def largest(group: Sequence[Option]) -> list[Option]:
    """Options of one group that none exceeds in nodes and vCPUs."""
    chosen = front([[-o.needed for o in group], [-o.instance.vcpus for o in group]])
    return [group[i] for i in chosen]


def hopeful(problem: Problem, tiers: Sequence[Groups]) -> list[tuple[Group, ...]]:
    """Routes on which the largest fleets keep the latency limits."""
    found = list(routes(tiers))
    if not problem.latency_ms_max:
        return found
    tops = [{key: largest(group) for key, group in tier.items()} for tier in tiers]
    return [
        route
        for route in found
        if not all(
            too_slow(problem, path)
            for path in itertools.product(*(t[k] for t, k in zip(tops, route, strict=True)))
        )
    ]


def first_plan(
    problem: Problem, tiers: Sequence[Groups], live: Sequence[tuple[Group, ...]]
) -> Path | None:
    """A plan that keeps all limits, cheap but not proved to be the cheapest; None if none is
    met."""
    best: Path | None = None
    for route in live:
        found = _walk(problem, [t[k] for t, k in zip(tiers, route, strict=True)], cost(best))
        if found is not None and cost(found) < cost(best):
            best = found
    return best


def cost(path: Path | None) -> float:
    """USD per month; infinite for no plan."""
    return math.inf if path is None else math.fsum(o.usd_per_month for o in path)


def affordable(tiers: Sequence[Sequence[Option]], bound: float) -> list[list[Option]]:
    """Options that can be in a plan of at most `bound` USD a month."""
    if math.isinf(bound):
        return [list(tier) for tier in tiers]
    least = [min(o.usd_per_month for o in tier) for tier in tiers]
    spare = bound - math.fsum(least) + 1e-6
    return [
        [o for o in tier if o.usd_per_month - low <= spare]
        for tier, low in zip(tiers, least, strict=True)
    ]


def _walk(problem: Problem, groups: Sequence[list[Option]], bound: float) -> Path | None:
    groups = [_within_share(problem, group, len(groups)) for group in groups]
    if not all(groups):
        return None
    for step in range(_STEPS + 1):
        path = tuple(group[(len(group) - 1) * step // _STEPS] for group in groups)
        if cost(path) >= 4 * bound:
            return None
        if not violations(problem, path):
            return _descend(problem, groups, path)
    return None


def _within_share(problem: Problem, group: list[Option], tiers: int) -> list[Option]:
    """Options that need no more than an equal share of the availability budget."""
    if problem.availability_min is None:
        return group
    share = -math.log(problem.availability_min) / tiers
    return [o for o in group if loss(o) <= share]


def _descend(problem: Problem, groups: Sequence[list[Option]], path: Path) -> Path:
    """Each tier in turn as cheap as the others allow, the dearest first."""
    for t in sorted(range(len(path)), key=lambda k: -path[k].usd_per_month):
        cheaper = [o for o in groups[t] if o.usd_per_month < path[t].usd_per_month]
        step = max(1, len(cheaper) // _DOWN)
        for option in cheaper[::step]:
            trial = (*path[:t], option, *path[t + 1 :])
            if not violations(problem, trial):
                path = trial
                break
    return path
