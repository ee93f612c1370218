r"""The search for the replication factors, sPARE Alg. 1, as a function of a callback that measures.

From (1, ..., 1) the tier whose latency varies most gets one replica more, if that is in the
feasible set F. If the target falls, the search goes on from there; if not, every point further in
that direction (more replicas of that tier, all others equal) leaves F. It ends when no tier can be
raised. It is a walk on measurements, each of which takes minutes of a real service, so:

    every point is measured at most once     a candidate that was refused has left F, one that was
                                             accepted lies below all later candidates
    at most |F| measurements                 they are distinct points of F
    a local optimum                          the paper: within 1.19 of an exhaustive search

Ties: the paper lets them be broken arbitrarily. Here an equal target is no improvement (line 9 is
strict), and of tiers with equal variability the one nearest to the front is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from optimizer.errors import InputError

Replicas = tuple[int, ...]
Measure = Callable[[Replicas], tuple[float, Sequence[float]]]


@dataclass(frozen=True)
class Step:
    """One measurement, and what followed. The first step is the start: `tier` is None."""

    replicas: Replicas  # measured
    tier: int | None  # index, from 0 at the front, of the tier that was raised
    target: float
    variability: tuple[float, ...]
    accepted: bool
    removed: tuple[Replicas, ...]  # what left the feasible set
    why: str


@dataclass(frozen=True)
class Search:
    """The chosen replicas with their target, every step in order, and why the search ended."""

    replicas: Replicas
    target: float
    steps: tuple[Step, ...]
    stopped: str


def search_replicas(feasible: Iterable[Replicas], measure: Measure) -> Search:
    """Near-optimal replicas within `feasible`, by measuring one neighbour after the other.

    Parameters: feasible F, e.g. of `feasible_replicas`, with (1, ..., 1) in it; measure(r) returns
    the target metric R^T > 0 (e.g. the page's p95) and the variability w_i >= 0 of each tier (e.g.
    p95 / mean), both finite.
    Returns: Search. Pure but for `measure`, which is called at most |F| times, never twice for r.
    Raises: InputError for an F without the start, and for a measurement that cannot be used,
    naming its r.
    Source: sPARE Alg. 1; numbers in the comments are its lines.
    """
    left = _checked(feasible)  # 1
    current = (1,) * len(next(iter(left)))  # 2
    refused: set[Replicas] = set()
    target, variability = _measured(measure, current)  # 4
    steps = [Step(current, None, target, variability, True, (), "the start, without replication")]
    while directions := _directions(left, current):  # 3, 5, 15
        tier = max(directions, key=lambda i: (variability[i], -i))  # 6
        candidate = _raised(current, tier)  # 7
        found, varied = _measured(measure, candidate)  # 8
        accepted = found < target  # 9
        removed = () if accepted else _beyond(left, current, tier)
        steps.append(
            Step(
                candidate, tier, found, varied, accepted, removed,
                f"tier {tier + 1} varies most ({variability[tier]:.4g}) of those that can be "
                f"raised; {found:.6g} is {'' if accepted else 'not '}below {target:.6g}",
            )
        )  # fmt: skip
        if accepted:
            current, target, variability = candidate, found, varied  # 10, 11
        else:
            refused.add(candidate)
            left.difference_update(removed)  # 13
    return Search(current, target, tuple(steps), _stopped(current, refused))


def _checked(feasible: Iterable[Replicas]) -> set[Replicas]:
    points = {tuple(point) for point in feasible}
    if not points:
        raise InputError(
            "feasible",
            expected="a set with (1, ..., 1) in it",
            came="an empty set",
            do="Without replication the service is unstable already: add servers or tokens.",
        )
    widths = {len(point) for point in points}
    width = max(widths)
    wrong = next((p for p in points if len(p) != width or not p or min(p) < 1), None)
    if wrong is not None:
        raise InputError(
            "feasible", expected=f"{width} replication factors of at least 1", came=str(wrong)
        )
    if (1,) * width not in points:
        raise InputError("feasible", expected=f"{(1,) * width} in it", came="a set without it")
    return points


def _measured(measure: Measure, replicas: Replicas) -> tuple[float, tuple[float, ...]]:
    target, varied = measure(replicas)
    if not 0 < target < math.inf:
        raise InputError(
            f"measurement at r = {replicas}: target",
            expected="a finite number above 0",
            came=repr(target),
        )
    variability = tuple(float(w) for w in varied)
    if len(variability) != len(replicas) or not all(0 <= w < math.inf for w in variability):
        raise InputError(
            f"measurement at r = {replicas}: variability",
            expected=f"{len(replicas)} finite numbers of at least 0",
            came=str(variability),
        )
    return float(target), variability


def _raised(replicas: Replicas, tier: int) -> Replicas:
    return (*replicas[:tier], replicas[tier] + 1, *replicas[tier + 1 :])


def _directions(left: set[Replicas], current: Replicas) -> list[int]:
    """Tiers whose factor can be raised by one within what is left of F."""
    return [i for i in range(len(current)) if _raised(current, i) in left]


def _beyond(left: set[Replicas], current: Replicas, tier: int) -> tuple[Replicas, ...]:
    """All points of F in this direction: more of this tier, the others equal (line 13)."""
    most = max(point[tier] for point in left)
    line = ((*current[:tier], r, *current[tier + 1 :]) for r in range(current[tier] + 1, most + 1))
    return tuple(point for point in line if point in left)


def _stopped(current: Replicas, refused: set[Replicas]) -> str:
    reasons = []
    for tier in range(len(current)):
        neighbour = _raised(current, tier)
        why = "was measured and is no better" if neighbour in refused else "is not feasible"
        reasons.append(f"{neighbour} {why}")
    return f"no tier can be raised from {current}: " + "; ".join(reasons)
