"""Arms compared with the first, by repeat: the cost of one fault to users (Broadwell 2004, section
5.1).

Both arms of a pair met the same arrivals at the same fault, so differences within pairs are used.
For **one fault** there are as many as repeats: Student's interval of their mean, from 3 on. **Over
all faults** differences are of very different size, so their signs and ranks are used: the
pseudomedian (Hodges and Lehmann 1963) with the interval of Wilcoxon's signed-rank test, and that
test's exact probability, from 6 on, where it can be below 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np
from scipy import stats

from experiments.kinds.performability.folder import Measured, Run, between
from experiments.record.metrics.bootstrap import CONFIDENCE
from experiments.record.metrics.performability import user_metrics

REPEATS_MIN = 3  # for Student's interval
PAIRS_MIN = 6  # for the other: 2 of 2^6 cases are below 5 %
COMPARED: tuple[Literal["failure_s", "lost", "waited_s", "demerits"], ...] = (
    "failure_s",
    "lost",
    "waited_s",
    "demerits",
)  # of one fault, in all


class FaultCost(TypedDict):
    """The whole cost of one fault to its users: requests lost, waiting above the ideal, demerits;
    and how long it failed them."""

    pair: int
    failure_s: float
    lost: float
    waited_s: float
    demerits: float


class Difference(TypedDict):
    """Mean of paired differences, with its interval."""

    mean: float | None
    low: float | None
    high: float | None
    pairs: int


class Typical(TypedDict):
    """The median of all pairwise means, its interval and probability of none."""

    median: float | None
    low: float | None
    high: float | None
    p: float | None
    pairs: int


def cost_of(run: Run, one: Measured) -> FaultCost:
    """Return the cost of a block's fault, which does not depend on how long the failure is said to
    have lasted, as means of a failure do.
    """
    rows = between(one.requests, *one.course.failure)
    metrics = user_metrics(rows, one.course.failure[1] - one.course.failure[0], run.ideal)
    ideal_ms = run.ideal.latency_ms or 0.0
    waited_s = rows.height * max(0.0, (metrics["waited_ms_mean"] or 0.0) - ideal_ms) / 1e3
    return {
        "pair": one.pair,
        "failure_s": one.course.failure_s,
        "lost": float(metrics["errors"]),
        "waited_s": waited_s,
        "demerits": metrics["demerits"] or 0.0,
    }


def paired(run: Run, first: Sequence[Measured], other: Sequence[Measured]) -> dict[str, Difference]:
    """Other minus first under one fault."""
    return {name: difference(found) for name, found in _changes(run, first, other).items()}


def over_all(run: Run, arm: str) -> dict[str, Typical]:
    """Return an arm minus the first, all faults and repeats together."""
    first, other = ([one for one in run.blocks if one.arm == of] for of in (run.arms[0], arm))
    return {name: typical(found) for name, found in _changes(run, first, other).items()}


def _changes(
    run: Run, first: Sequence[Measured], other: Sequence[Measured]
) -> dict[str, list[float]]:
    before = {one.pair: cost_of(run, one) for one in first}
    after = {one.pair: cost_of(run, one) for one in other}
    pairs = sorted(before.keys() & after.keys())
    return {name: [after[pair][name] - before[pair][name] for pair in pairs] for name in COMPARED}


def difference(change: Sequence[float]) -> Difference:
    """Mean of paired differences, with Student's 95 % interval from 3 of them on."""
    count = len(change)
    mean = float(np.mean(change)) if count else None
    if mean is None or count < REPEATS_MIN:
        return {"mean": mean, "low": None, "high": None, "pairs": count}
    ahead = 0.5 + CONFIDENCE / 2.0
    half = float(stats.t.ppf(ahead, count - 1) * np.std(change, ddof=1) / math.sqrt(count))
    return {"mean": mean, "low": mean - half, "high": mean + half, "pairs": count}


def typical(change: Sequence[float]) -> Typical:
    """Return the median of all pairwise means of n differences, its interval and probability of
    none.

    Source: Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods, 3.1 to 3.3.
    """
    count = len(change)
    if count == 0:
        return {"median": None, "low": None, "high": None, "p": None, "pairs": 0}
    values = np.asarray(change)
    rows, columns = np.triu_indices(count)
    walsh = np.sort((values[rows] + values[columns]) / 2.0)
    median = float(np.median(walsh))
    found: Typical = {"median": median, "low": None, "high": None, "p": None, "pairs": count}
    if count >= PAIRS_MIN:
        below = _rank_sums(count).cumsum()
        cut = int(np.searchsorted(below, (1.0 - CONFIDENCE) / 2.0, side="right"))  # P(W < cut)
        found["low"], found["high"] = float(walsh[cut - 1]), float(walsh[walsh.size - cut])
        positive = _positive_ranks(values)
        least = min(positive, count * (count + 1) / 2.0 - positive)
        found["p"] = float(min(1.0, 2.0 * below[math.floor(least)]))
    return found


def _positive_ranks(values: Any) -> float:
    """Return the sum of the ranks of positive differences; of none, half a rank, which errs to no
    difference.
    """
    ranks = stats.rankdata(np.abs(values))
    return float(ranks[values > 0].sum() + ranks[values == 0].sum() / 2.0)


def _rank_sums(count: int) -> Any:
    """Return the probability of each sum 0 .. n(n+1)/2 of the ranks 1 .. n, each counted or not."""
    chance = np.ones(1)
    for rank in range(1, count + 1):
        longer = np.zeros(chance.size + rank)
        longer[: chance.size] += chance / 2.0
        longer[rank:] += chance / 2.0
        chance = longer
    return chance
