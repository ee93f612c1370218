"""Check of the assumption of a solved problem's proof: more nodes or vCPUs are no slower.

The law of a page has this property by construction (`optimizer.latency.below`). It is checked
nevertheless, around the found plan and around the largest fleets of its route: in each tier with
all other nodes or vCPUs in turn. If a larger tier is slower there, dominance, labels and cuts prove
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from core.arrays import Floats
from core.errors import UnstableError
from core.tolerances import SLOWER
from optimizer.plan.solve.labels import largest_of
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import Pool, eligible, routes_by_cost
from optimizer.plan.solve.problem import Path, Problem

if TYPE_CHECKING:
    Sizes = Floats

_SIZES_MAX = 16  # of a tier, in one direction
_SMALLEST = 6  # of which all are looked at


def breach(problem: Problem, path: Path | None) -> str | None:
    """Describe the first place where a larger fleet is slower; None if there is none.

    Parameters: path, the plan that was found; None: there is said to be none.
    """
    if not problem.latency_ms_max:
        return None
    pools = _of_route(eligible(problem), path)
    if not pools:
        return None
    largest = tuple(largest_of(problem, pool) for pool in pools)
    for middle in dict.fromkeys((path or largest, largest)):
        for t, pool in enumerate(pools):
            for line in _lines(pool, middle[t]):
                found = _slower(problem, middle, t, line)
                if found is not None:
                    return found
    return None


def _of_route(pools: Sequence[Pool], path: Path | None) -> list[Pool]:
    """Return the options with the plan's amplifications and replicas, or of the cheapest ones."""
    if path is not None:
        route = tuple((option.upstream, option.replicas) for option in path)
    else:
        first = next(routes_by_cost(pools, [pool.columns.usd for pool in pools]), None)
        if first is None:
            return []
        route = first[1]
    return [pool.keep(pool.groups[group]) for pool, group in zip(pools, route, strict=True)]


def _lines(pool: Pool, at: Option) -> Iterator[list[Option]]:
    """Yield the tier with other numbers of nodes, and with other vCPUs, in ascending order."""
    c = pool.columns
    counts = np.union1d(c.needed, [at.needed])
    yield [replace(at, needed=int(n)) for n in _some(counts)]
    cores = np.union1d(c.vcpus, [at.instance.vcpus])
    machine = at.instance
    yield [replace(at, instance=replace(machine, vcpus=float(v))) for v in _some(cores)]


def _some(values: Sizes) -> Sizes:
    """Return the smallest few, and increasingly fewer of the others."""
    few = np.geomspace(1.0, len(values), min(len(values), _SIZES_MAX)).round().astype(np.int64) - 1
    found: Sizes = values[np.union1d(few, np.arange(min(len(values), _SMALLEST)))]
    return found


def _slower(problem: Problem, path: Path, t: int, line: Sequence[Option]) -> str | None:
    least: dict[str, tuple[float, Option]] = {}
    for option in line:
        for name, value in _percentiles(problem, (*path[:t], option, *path[t + 1 :]), t).items():
            before = least.setdefault(name, (value, option))
            if value > before[0] * SLOWER:
                return (
                    f"{name} is {value:.4g} ms with {_size(option)} and {before[0]:.4g} ms with "
                    f"{_size(before[1])} in tier {option.tier}"
                )
            if value < before[0]:
                least[name] = (value, option)
    return None


def _percentiles(problem: Problem, path: Path, t: int) -> dict[str, float]:
    """Return the percentiles without faults, and with that tier degraded if this is requested."""
    found = _named(problem, problem.latency, path, "p{}")
    degraded, latency = problem.degraded, problem.latency_degraded
    if degraded is not None and latency is not None:
        left, option = degraded.servers(path[t]), path[t]
        if left >= max(option.replicas, degraded.limping, 1):
            found |= _named(problem, lambda p: latency(p, t), path, "p{} degraded")
    return found


def _named(
    problem: Problem, latency: Callable[[Path], Mapping[int, float]], path: Path, name: str
) -> dict[str, float]:
    try:
        found = latency(path)
    except UnstableError:
        found = {}
    return {name.format(q): found.get(q, math.inf) for q in problem.latency_ms_max}


def _size(option: Option) -> str:
    return f"{option.needed} x {option.instance.vcpus:g} vCPUs"
