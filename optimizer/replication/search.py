r"""The search for the replication factors, sPARE Alg. 1, as a function of a callback that measures.

From (1, ..., 1) the tier whose latency varies most gets one replica more, if that point is in the
feasible set F. If the target falls, the search goes on from there. If not, every point further in
that direction (more replicas of that tier, all others equal) leaves F. The search ends when no tier
can be raised. Each measurement takes minutes of a real service, so these properties matter:

    every point is measured at most once     a refused candidate has left F, and an accepted one
                                             lies below all later candidates
    at most |F| measurements                 they are distinct points of F
    a local optimum                          the paper: within 1.19 of an exhaustive search

Ties: the paper lets them be broken arbitrarily. Here an equal target is no improvement (line 9 is
strict), and of tiers with equal variability the one nearest to the front is raised.

Beyond the paper: `judge` replaces the plain "<" of line 9 where measurements are noisy. `start` is
a start other than (1, ..., 1), for instance the optimum of a model. From such a start a tier may be
lowered too, once none can be raised, the least variable tier first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from core.errors import InputError

Replicas = tuple[int, ...]
Measure = Callable[[Replicas], tuple[float, Sequence[float]]]


@dataclass(frozen=True)
class Judgement:
    """The comparison of a candidate with the current r: its measurement, the result, and why."""

    target: float
    variability: Sequence[float]
    better: bool
    why: str


Judge = Callable[[Replicas, Replicas], Judgement]  # of current and candidate


@dataclass(frozen=True)
class Step:
    """One measurement and its consequences. The first step is the start: `tier` is None."""

    replicas: Replicas  # measured
    tier: int | None  # index, from 0 at the front, of the tier that was raised (or lowered)
    target: float
    variability: tuple[float, ...]
    accepted: bool
    removed: tuple[Replicas, ...]  # points that left the feasible set
    why: str


@dataclass(frozen=True)
class Search:
    """The chosen replicas with their target, every step in order, and the reason of the end."""

    replicas: Replicas
    target: float
    steps: tuple[Step, ...]
    stopped: str


def search_replicas(
    feasible: Iterable[Replicas],
    measure: Measure,
    *,
    start: Replicas | None = None,
    judge: Judge | None = None,
) -> Search:
    """Return near-optimal replicas within `feasible`; measures one neighbour after the other.

    Parameters: feasible F, e.g. of `feasible_replicas`, with (1, ..., 1) in it; measure(r) returns
    the target metric R^T > 0 (e.g. the page's p95) and the variability w_i >= 0 of each tier (e.g.
    p95 / mean), both finite; start in F, by default (1, ..., 1); judge(r, candidate) measures and
    judges a candidate. Without a judge, the candidate is measured and must be below the target;
    with one, `measure` is called for the start only.
    Returns: Search. Pure except for `measure`, which is called at most |F| times, once for an r.
    Raises: InputError for an F without the start, and for an unusable measurement, with its r.
    Source: sPARE Alg. 1; numbers in the comments are its lines.
    """
    remaining = _check_feasible(feasible, start)  # 1
    current = (1,) * len(next(iter(remaining))) if start is None else start  # 2
    target, variability = _measure_point(measure, current)  # 4
    first_reason = "the start, without replication" if start is None else "the start that was given"
    steps = [Step(current, None, target, variability, True, (), first_reason)]
    measured = {current}
    while move := _choose_move(
        remaining - measured, current, variability, lower=start is not None
    ):  # 3, 5-7, 15
        tier, candidate, chosen = move
        judgement = _judge_candidate(measure, judge, current, target, candidate)  # 8, 9
        removed = () if judgement.better else _points_beyond(remaining, current, tier, candidate)
        variabilities = tuple(float(w) for w in judgement.variability)
        why = f"{chosen}; {judgement.why}"
        steps.append(
            Step(candidate, tier, judgement.target, variabilities, judgement.better, removed, why)
        )
        measured.add(candidate)
        if judgement.better:
            current, target, variability = candidate, judgement.target, variabilities  # 10, 11
        else:
            remaining.difference_update(removed)  # 13
    refused = measured - {step.replicas for step in steps if step.accepted}
    return Search(current, target, tuple(steps), _describe_stop(current, refused))


def _judge_candidate(
    measure: Measure, judge: Judge | None, current: Replicas, target: float, candidate: Replicas
) -> Judgement:
    """Return the judge's result, or that of a measurement and a plain "<" (lines 8 and 9)."""
    if judge is not None:
        judgement = judge(current, candidate)
        _check(candidate, judgement.target, tuple(judgement.variability))
        return judgement
    value, variability = _measure_point(measure, candidate)
    better = value < target
    why = f"{value:.6g} is {'' if better else 'not '}below {target:.6g}"
    return Judgement(value, variability, better, why)


def _choose_move(
    remaining: set[Replicas], current: Replicas, variability: Sequence[float], *, lower: bool
) -> tuple[int, Replicas, str] | None:
    """Return the tier to change, the candidate and the reason; None if no neighbour is left."""
    tiers = range(len(current))
    up = [tier for tier in tiers if _change_tier(current, tier, 1) in remaining]
    if up:
        tier = max(up, key=lambda i: (variability[i], -i))
        why = f"tier {tier + 1} varies most ({variability[tier]:.4g}) of those that can be raised"
        return tier, _change_tier(current, tier, 1), why
    down = [tier for tier in tiers if _change_tier(current, tier, -1) in remaining] if lower else []
    if not down:
        return None
    tier = min(down, key=lambda i: (variability[i], i))
    why = f"tier {tier + 1} varies least ({variability[tier]:.4g}) of those that can be lowered"
    return tier, _change_tier(current, tier, -1), why


def _check_feasible(feasible: Iterable[Replicas], start: Replicas | None) -> set[Replicas]:
    points = {tuple(point) for point in feasible}
    if not points:
        raise InputError(
            "feasible",
            expected="a set with (1, ..., 1) in it",
            got="an empty set",
            hint="Without replication the service is unstable already: add servers or tokens.",
        )
    widths = {len(point) for point in points}
    width = max(widths)
    wrong = next((p for p in points if len(p) != width or not p or min(p) < 1), None)
    if wrong is not None:
        raise InputError(
            "feasible", expected=f"{width} replication factors of at least 1", got=str(wrong)
        )
    for needed in ((1,) * width, start):
        if needed is not None and needed not in points:
            raise InputError("feasible", expected=f"{needed} in it", got="a set without it")
    return points


def _measure_point(measure: Measure, replicas: Replicas) -> tuple[float, tuple[float, ...]]:
    target, raw = measure(replicas)
    variability = tuple(float(w) for w in raw)
    _check(replicas, target, variability)
    return float(target), variability


def _check(replicas: Replicas, target: float, variability: tuple[float, ...]) -> None:
    if not 0 < target < math.inf:
        raise InputError(
            f"measurement at r = {replicas}: target",
            expected="a finite number above 0",
            got=repr(target),
        )
    if len(variability) != len(replicas) or not all(0 <= w < math.inf for w in variability):
        raise InputError(
            f"measurement at r = {replicas}: variability",
            expected=f"{len(replicas)} finite numbers of at least 0",
            got=str(variability),
        )


def _change_tier(replicas: Replicas, tier: int, by: int) -> Replicas:
    return (*replicas[:tier], replicas[tier] + by, *replicas[tier + 1 :])


def _points_beyond(
    remaining: set[Replicas], current: Replicas, tier: int, candidate: Replicas
) -> tuple[Replicas, ...]:
    """Return all points of F in the direction of the candidate (line 13).

    They have more replicas of this tier (fewer if it was lowered); the other tiers are equal.
    """
    most = max(point[tier] for point in remaining)
    ahead = (
        range(current[tier] + 1, most + 1)
        if candidate[tier] > current[tier]
        else range(current[tier] - 1, 0, -1)
    )
    line = ((*current[:tier], r, *current[tier + 1 :]) for r in ahead)
    return tuple(point for point in line if point in remaining)


def _describe_stop(current: Replicas, refused: set[Replicas]) -> str:
    reasons = []
    for tier in range(len(current)):
        neighbour = _change_tier(current, tier, 1)
        why = "was measured and is no better" if neighbour in refused else "is not feasible"
        reasons.append(f"{neighbour} {why}")
    return f"no tier can be raised from {current}: " + "; ".join(reasons)
