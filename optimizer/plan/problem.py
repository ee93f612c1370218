"""What is asked of a plan: the options, the limits, and whether a plan keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from optimizer.plan.options import Option

FAMILIES = ("availability", "utilisation", "collision", "latency")

Path = tuple[Option, ...]


class Latency(Protocol):
    """Percentiles of a whole plan [ms], keyed by the percentile. More nodes or vCPUs: no slower."""

    def __call__(self, path: Path) -> Mapping[int, float]: ...


@dataclass(frozen=True)
class Problem:
    """Options per tier, front first, and the limits. A missing limit is not imposed."""

    options: tuple[tuple[Option, ...], ...]
    latency: Latency
    availability_min: float | None = None
    latency_ms_max: Mapping[int, float] = field(default_factory=dict)
    utilisation_max: float = 1.0
    collision_max: float = 1.0

    def without(self, family: str) -> Problem:
        """The same problem with one family of limits lifted."""
        changes: dict[str, dict[str, Any]] = {
            "availability": {"availability_min": None},
            "utilisation": {"utilisation_max": math.inf},
            "collision": {"collision_max": 1.0},
            "latency": {"latency_ms_max": {}},
        }
        return replace(self, **changes[family])


def availability_of(path: Sequence[Option]) -> float:
    """All tiers have enough nodes: the product, tiers being independent."""
    return math.prod(1.0 - option.unavailability for option in path)


def violations(problem: Problem, path: Path) -> list[str]:
    """Families of limits that `path` breaks, evaluated without the solver and its tolerances."""
    broken = []
    floor = problem.availability_min
    if floor is not None and availability_of(path) < floor:
        broken.append("availability")
    if any(o.utilisation > problem.utilisation_max for o in path):
        broken.append("utilisation")
    if any(o.collision > problem.collision_max for o in path):
        broken.append("collision")
    if problem.latency_ms_max and too_slow(problem, path):
        broken.append("latency")
    return broken


def loss(option: Option) -> float:
    """-log of the availability: what the option takes from the budget."""
    return -math.log1p(-option.unavailability) if option.unavailability < 1 else math.inf


def too_slow(problem: Problem, path: Path) -> bool:
    """Whether a percentile of the whole plan is above its limit."""
    found = problem.latency(path)
    return any(found[q] > limit for q, limit in problem.latency_ms_max.items())
