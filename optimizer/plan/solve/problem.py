"""A plan's problem: the options, the limits, and their checks for a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from core.arrays import Floats
from optimizer.plan.solve.options import Degraded, Option

FAMILIES = ("availability", "utilisation", "collision", "latency", "degraded")

Path = tuple[Option, ...]
Laws = Floats  # (n, any): n laws of a time, each a few numbers; larger is slower
_Corner = TypeVar("_Corner")


class Latency(Protocol):
    """Percentiles of a whole plan [ms], keyed by the percentile. More nodes or vCPUs: no slower."""

    def __call__(self, path: Path) -> Mapping[int, float]: ...


class DegradedLatency(Protocol):
    """`Latency` while the tier of that index is degraded. More active nodes: no slower either."""

    def __call__(self, path: Path, tier: int) -> Mapping[int, float]: ...


class Chain(Protocol):
    """A latency that depends on the tiers below a tier only by the law of the time there.

    A law is a few numbers. If none of them is larger, no tier above is slower, and neither is the
    page. If the problem has a degraded condition, this also holds while any one tier is degraded.
    """

    def above(self, tier: int, option: Option, below: Laws | None) -> Laws:
        """Return the law of the time of one upstream copy in the tier and all tiers below.

        There is one law for each of `below`, which is None for the last tier: then there is one.
        """
        ...

    def mean_s(self, laws: Laws) -> Floats:
        """Return the mean of each law [s]."""
        ...


@dataclass(frozen=True)
class Problem:
    """Options per tier, front first, and the limits. A missing limit is not imposed.

    `degraded` demands that the latency limits and a utilisation below 1 also hold while any one
    tier is in that condition; `latency_degraded` evaluates it. `chain` is set if the latency has
    that structure (in that condition too): the search is then exact for long chains as well.
    """

    options: tuple[Sequence[Option], ...]
    latency: Latency
    unavailability_max: float | None = None
    latency_ms_max: Mapping[int, float] = field(default_factory=dict)
    utilisation_max: float = 1.0
    collision_max: float = 1.0
    degraded: Degraded | None = None
    latency_degraded: DegradedLatency | None = None
    chain: Chain | None = None

    def without(self, family: str) -> Problem:
        changes: dict[str, dict[str, Any]] = {
            "availability": {"unavailability_max": None},
            "utilisation": {"utilisation_max": math.inf},
            "collision": {"collision_max": 1.0},
            "latency": {"latency_ms_max": {}},
            "degraded": {"degraded": None},
        }
        return replace(self, **changes[family])


def unavailability_of(path: Sequence[Option]) -> float:
    """Return the probability that any tier has too few nodes: 1 - prod_t A_t, to full precision.

    The tiers are independent. Reports and checks of the limit use this one figure, so a path keeps
    a limit that equals the figure it reaches. (The solver's sum of `loss` is within 1e-15 of it.)
    """
    unavailability = 0.0
    for option in path:
        unavailability += option.unavailability * (1.0 - unavailability)
    return unavailability


def in_ms(percentiles: Mapping[int, float]) -> dict[str, float | None]:
    """Return percentiles [ms] as plan.json names and rounds them; None for an infinite one."""
    return {
        f"p{q}_ms": round(ms, 2) if math.isfinite(ms) else None
        for q, ms in sorted(percentiles.items())
    }


def violations(problem: Problem, path: Path) -> list[str]:
    """Return the families of limits that `path` breaks, evaluated without the solver."""
    broken = []
    most = problem.unavailability_max
    if most is not None and unavailability_of(path) > most:
        broken.append("availability")
    if any(o.utilisation > problem.utilisation_max for o in path):
        broken.append("utilisation")
    if any(o.collision > problem.collision_max for o in path):
        broken.append("collision")
    if not _is_within(problem, problem.latency(path) if problem.latency_ms_max else {}):
        broken.append("latency")
    if not all(stands(problem, option) for option in path) or any(_degraded_slow(problem, path)):
        broken.append("degraded")
    return broken


def stands(problem: Problem, option: Option) -> bool:
    """True if the tier itself carries the load in the degraded condition, or if there is none."""
    return problem.degraded is None or problem.degraded.utilisation(option) < 1.0


def too_slow(problem: Problem, path: Path) -> bool:
    """True if a percentile of the whole plan is above its limit, on a good day or degraded.

    In the degraded condition every tier has to stand by itself (`stands`)."""
    if not problem.latency_ms_max:
        return False
    return not _is_within(problem, problem.latency(path)) or any(_degraded_slow(problem, path))


def percentile_share(problem: Problem, path: Path) -> float:
    """Return the largest ratio of a percentile to its limit, also if degraded; 0 without limits."""
    if not problem.latency_ms_max:
        return 0.0
    cases = [problem.latency(path)]
    if problem.degraded is not None and problem.latency_degraded is not None:
        cases += [problem.latency_degraded(path, tier) for tier in range(len(path))]
    return max(p[q] / limit for p in cases for q, limit in problem.latency_ms_max.items())


def _degraded_slow(problem: Problem, path: Path) -> Iterator[bool]:
    if problem.degraded is None or not problem.latency_ms_max:
        return
    assert problem.latency_degraded is not None
    for tier, option in enumerate(path):
        if stands(problem, option):
            yield not _is_within(problem, problem.latency_degraded(path, tier))


def _is_within(problem: Problem, percentiles: Mapping[int, float]) -> bool:
    return all(percentiles[q] <= limit for q, limit in problem.latency_ms_max.items())


def find_last(corners: Sequence[_Corner], holds: Callable[[_Corner], bool]) -> _Corner:
    """Return the last corner for which it holds, by bisection; it holds for the first."""
    low, high = 0, len(corners)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(corners[middle]) else (low, middle)
    return corners[low]
