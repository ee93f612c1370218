"""Check of the assumption of a solved problem's proof: more nodes or vCPUs are no slower.

The law of a page has this property by construction (`optimizer.latency.below`). It is checked
nevertheless, around the plan and around the largest fleets of its route: each tier in turn gets
other numbers of nodes, and other vCPUs. If a larger tier is slower there, dominance, labels and
cuts prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from core.arrays import Floats
from core.errors import UnstableError
from core.tolerances import SLOWER
from optimizer.plan.solve.labels import largest_of
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import Pool, eligible_pools, routes_by_cost
from optimizer.plan.solve.problem import Path, Problem

_SIZES_MAX = 16  # of a tier, in one direction
_SMALLEST = 6  # of the smallest sizes, all are looked at


def find_breach(problem: Problem, path: Path | None) -> str | None:
    """Describe the first case where a larger fleet is slower; None if there is none.

    Parameters: path, the plan of the search; None if the search says that there is none.
    """
    if not problem.latency_ms_max:
        return None
    pools = _pools_of_route(eligible_pools(problem), path)
    if not pools:
        return None
    largest = tuple(largest_of(problem, pool) for pool in pools)
    for middle in dict.fromkeys((path or largest, largest)):
        for t, pool in enumerate(pools):
            for line in _lines(pool, middle[t]):
                description = _find_slower(problem, middle, t, line)
                if description is not None:
                    return description
    return None


def _pools_of_route(pools: Sequence[Pool], path: Path | None) -> list[Pool]:
    """Return the options with the plan's amplifications and replicas, or of the cheapest ones."""
    if path is not None:
        route = tuple((option.upstream, option.replicas) for option in path)
    else:
        first = next(routes_by_cost(pools, [pool.columns.usd for pool in pools]), None)
        if first is None:
            return []
        route = first[1]
    return [pool.keep(pool.groups[group]) for pool, group in zip(pools, route, strict=True)]


def _lines(pool: Pool, option: Option) -> Iterator[list[Option]]:
    """Yield the tier with other numbers of nodes, and with other vCPUs, in ascending order."""
    c = pool.columns
    counts = np.union1d(c.needed, [option.needed])
    yield [replace(option, needed=int(n)) for n in _thin_out(counts)]
    cores = np.union1d(c.vcpus, [option.instance.vcpus])
    machine = option.instance
    yield [replace(option, instance=replace(machine, vcpus=float(v))) for v in _thin_out(cores)]


def _thin_out(values: Floats) -> Floats:
    """Return the smallest few, and increasingly fewer of the others."""
    few = np.geomspace(1.0, len(values), min(len(values), _SIZES_MAX)).round().astype(np.int64) - 1
    sample: Floats = values[np.union1d(few, np.arange(min(len(values), _SMALLEST)))]
    return sample


def _find_slower(problem: Problem, path: Path, t: int, line: Sequence[Option]) -> str | None:
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
    percentiles = _name_percentiles(problem, problem.latency, path, "p{}")
    degraded, latency = problem.degraded, problem.latency_degraded
    if degraded is not None and latency is not None:
        left, option = degraded.servers(path[t]), path[t]
        if left >= max(option.replicas, degraded.limping, 1):
            percentiles |= _name_percentiles(problem, lambda p: latency(p, t), path, "p{} degraded")
    return percentiles


def _name_percentiles(
    problem: Problem, latency: Callable[[Path], Mapping[int, float]], path: Path, name: str
) -> dict[str, float]:
    try:
        percentiles = latency(path)
    except UnstableError:
        percentiles = {}
    return {name.format(q): percentiles.get(q, math.inf) for q in problem.latency_ms_max}


def _size(option: Option) -> str:
    return f"{option.needed} x {option.instance.vcpus:g} vCPUs"
