"""Arms compared with the first, by repeat: the cost of one fault to users (Broadwell 2004, section
5.1).

Both arms of a pair met the same arrivals at the same fault, so differences within pairs are used.
For **one fault** there is one difference per repeat; from 3 on, their mean has Student's interval.
**Over all faults** the differences vary greatly in size, so their signs and ranks are used: the
pseudomedian (Hodges and Lehmann 1963) with the interval of Wilcoxon's signed-rank test and, from 6
differences on, where it can be below 5 %, that test's exact probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from core.json_object import JsonObject
from experiments.kinds.performability.folder import MeasuredBlock, Run
from experiments.record.metrics.bootstrap import CONFIDENCE, student_half
from experiments.record.metrics.performability import user_metrics

REPEATS_MIN = 3  # for Student's interval
PAIRS_MIN = 6  # for Wilcoxon's interval: 2 of 2^6 cases are below 5 %
COMPARED = ("failure_s", "lost", "waited_s", "demerits")  # totals of one fault


def cost_of(run: Run, block: MeasuredBlock) -> dict[str, float]:
    """Return the cost of a block's fault as totals. Unlike means over a failure, they do not depend
    on the length that is given to the failure.
    """
    rows = block.failing
    metrics = user_metrics(rows, block.course.failure[1] - block.course.failure[0], run.ideal)
    ideal_ms = run.ideal.latency_ms or 0.0
    waited_s = rows.height * max(0.0, (metrics["waited_ms_mean"] or 0.0) - ideal_ms) / 1e3
    return {
        "pair": block.pair,
        "failure_s": block.course.failure_s,
        "lost": float(metrics["errors"]),
        "waited_s": waited_s,
        "demerits": metrics["demerits"] or 0.0,
    }


def paired_differences(
    run: Run, first: Sequence[MeasuredBlock], second: Sequence[MeasuredBlock]
) -> dict[str, JsonObject]:
    """Return the second arm minus the first under one fault."""
    return {name: difference(changes) for name, changes in _changes(run, first, second).items()}


def over_all(run: Run, arm: str) -> dict[str, JsonObject]:
    """Return an arm minus the first over all faults and repeats."""
    changes_of = _changes(run, run.blocks_of(run.arms[0]), run.blocks_of(arm))
    return {name: pseudomedian(changes) for name, changes in changes_of.items()}


def _changes(
    run: Run, first: Sequence[MeasuredBlock], second: Sequence[MeasuredBlock]
) -> dict[str, list[float]]:
    before = {block.pair: cost_of(run, block) for block in first}
    after = {block.pair: cost_of(run, block) for block in second}
    pairs = sorted(before.keys() & after.keys())
    return {name: [after[pair][name] - before[pair][name] for pair in pairs] for name in COMPARED}


def difference(change: Sequence[float]) -> JsonObject:
    """Return the mean of paired differences; from 3 pairs on with Student's 95 % interval."""
    count = len(change)
    mean = float(np.mean(change)) if count else None
    if mean is None or count < REPEATS_MIN:
        return {"mean": mean, "low": None, "high": None, "pairs": count}
    half = student_half(change)
    return {"mean": mean, "low": mean - half, "high": mean + half, "pairs": count}


def pseudomedian(change: Sequence[float]) -> JsonObject:
    """Return the median of all pairwise means of n differences, its interval, and the probability
    of such values if there is no difference.

    Source: Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods, 3.1 to 3.3.
    """
    count = len(change)
    if count == 0:
        return {"median": None, "low": None, "high": None, "p": None, "pairs": 0}
    values = np.asarray(change)
    rows, columns = np.triu_indices(count)
    walsh = np.sort((values[rows] + values[columns]) / 2.0)
    median = float(np.median(walsh))
    estimate: JsonObject = {"median": median, "low": None, "high": None, "p": None, "pairs": count}
    if count >= PAIRS_MIN:
        below = _rank_sums(count).cumsum()
        cut = int(np.searchsorted(below, (1.0 - CONFIDENCE) / 2.0, side="right"))  # P(W < cut)
        estimate["low"], estimate["high"] = float(walsh[cut - 1]), float(walsh[walsh.size - cut])
        positive = _positive_ranks(values)
        least = min(positive, count * (count + 1) / 2.0 - positive)
        estimate["p"] = float(min(1.0, 2.0 * below[math.floor(least)]))
    return estimate


def _positive_ranks(values: Any) -> float:
    """Return the sum of the ranks of positive differences; a difference of zero counts half its
    rank, which errs towards no difference.
    """
    ranks = stats.rankdata(np.abs(values))
    return float(ranks[values > 0].sum() + ranks[values == 0].sum() / 2.0)


def _rank_sums(count: int) -> Any:
    """Return the probability of each sum 0 .. n(n+1)/2 of ranks, if each rank 1 .. n counts with
    probability 1/2.
    """
    chance = np.ones(1)
    for rank in range(1, count + 1):
        longer = np.zeros(chance.size + rank)
        longer[: chance.size] += chance / 2.0
        longer[rank:] += chance / 2.0
        chance = longer
    return chance
